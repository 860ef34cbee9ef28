//! TorchTune: which recipe and which configuration a job needs, from its nodes, processes and arguments.

use muster_api::TrainJob;
use muster_api::names::{NODE, TRAINER};
use muster_kube::FieldError;
use serde_json::{Value, json};

use super::Processes;
use crate::info::Info;
use crate::name;

/// Settings that the runtime keeps to itself.
const IMMUTABLE: [&str; 4] =
    ["output_dir", "tokenizer.path", "checkpointer.checkpoint_dir", "tokenizer.merges_file"];
const LARGE: &str = "llama3_3/70B";
const QWEN: &str = "qwen2_5/1.5B";
const MODELS: [&str; 4] = ["llama3_2/1B", "llama3_2/3B", LARGE, QWEN];

const LORA: &str = "model.lora_attn_modules";
const QUANTIZE: &str = "model.quantize_base";
const DORA: &str = "model.use_dora";

/// Whether a job runs TorchTune: its command is exactly this.
pub(super) fn is_asked(job: &TrainJob) -> bool {
    let command = job.spec.trainer.as_ref().and_then(|trainer| trainer.command.as_deref());
    command.is_some_and(|command| command == ["tune", "run"])
}

/// The whole command.
pub(super) fn command(
    info: &Info,
    job: &TrainJob,
    nodes: i32,
    processes: Processes,
    gpus: i64,
) -> Vec<String> {
    let mut words = vec!["tune".to_owned(), "run".to_owned()];
    let several = match processes {
        Processes::Auto => gpus > 1,
        Processes::Count(count) => count > 1,
    };
    if nodes > 1 || several {
        words.push(format!("--rdzv_endpoint={}", name::head_and_port(job)));
    }
    let (recipe, suffix) = recipe(nodes, processes, gpus, args(job));
    words.extend([recipe.to_owned(), "--config".to_owned(), format!("{}{suffix}", model(job))]);
    words.extend(kept(info));
    words
}

/// What TorchTune cannot do. Nodes are those of the job; processes are not yet counted.
pub(super) fn validate(info: &Info, job: &TrainJob) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let model = model(job);
    let trainer = job.spec.trainer.as_ref();
    let nodes = trainer.and_then(|trainer| trainer.num_nodes);
    let (processes, gpus) = (Processes::of(job), info.node_resources(job).gpus());
    let many = nodes.is_some_and(|nodes| nodes > 1);
    let name = &job.spec.runtime_ref.name;
    if !MODELS.contains(&model.as_str()) {
        let why =
            format!("must have a supported pretrained model, invalid model configured: {model}");
        errors.push(FieldError::invalid("spec.runtimeRef.name", name.as_str(), why).remedy(
            "use a runtime that is named torchtune-<model>-<size>, such as torchtune-llama3.2-1b",
        ));
    }
    if many && model != LARGE {
        errors.push(
            FieldError::invalid(
                "spec.trainer.numNodes",
                nodes,
                format!("must be 1 for {model} model"),
            )
            .remedy("use one node"),
        );
    }
    let (_, suffix) = recipe(nodes.unwrap_or(1), processes, gpus, args(job));
    if suffix.contains("_qlora") {
        if model == QWEN {
            let why = format!("QLoRA is not supported for {model} model");
            errors.push(
                FieldError::invalid("spec.runtimeRef.name", name.as_str(), why)
                    .remedy("drop model.quantize_base"),
            );
        }
        let small = model == MODELS[0] || model == MODELS[1];
        if !suffix.contains("_single_device") && small {
            let count = trainer.and_then(|trainer| trainer.num_proc_per_node);
            let why = format!("must be auto or 1 for {model} model when using QLoRA");
            errors.push(
                FieldError::invalid("spec.trainer.numProcPerNode", count, why)
                    .remedy("leave it out, or set it to 1"),
            );
            let resources = json!(trainer.and_then(|trainer| trainer.resources_per_node.as_ref()));
            let why =
                format!("must have gpu resource with value 1 for {model} model when using QLoRA");
            errors.push(
                FieldError::invalid("spec.trainer.resourcesPerNode", resources, why)
                    .remedy("ask for one GPU"),
            );
        }
    }
    if many && (uses_lora(args(job)) || uses_qlora(args(job))) {
        let why = "LoRA fine-tuning is not supported for multi-node training in TorchTune";
        errors
            .push(FieldError::invalid("spec.trainer.numNodes", nodes, why).remedy("use one node"));
    }
    for (index, arg) in args(job).iter().enumerate() {
        let key = key(arg);
        if IMMUTABLE.contains(&key) {
            let why = format!(
                "must not set immutable config {key:?} in trainer args; it is managed by the runtime"
            );
            let field = format!("spec.trainer.args[{index}]");
            errors.push(
                FieldError::invalid(field, arg.as_str(), why)
                    .remedy("drop it, or use a runtime that sets it"),
            );
        }
    }
    errors
}

/// Recipe and configuration.
fn recipe(
    nodes: i32,
    processes: Processes,
    gpus: i64,
    args: &[String],
) -> (&'static str, &'static str) {
    let single = nodes == 1 && (processes == Processes::Count(1) || gpus == 1);
    let (lora, qlora) = (uses_lora(args), uses_qlora(args));
    match (single, nodes == 1) {
        (true, _) if qlora => ("lora_finetune_single_device", "_qlora_single_device"),
        (true, _) if lora => ("lora_finetune_single_device", "_lora_single_device"),
        (true, _) => ("full_finetune_single_device", "_full_single_device"),
        (_, true) if qlora => ("lora_finetune_distributed", "_qlora"),
        (_, true) if lora => ("lora_finetune_distributed", "_lora"),
        _ if nodes > 1 => ("full_finetune_distributed", "_full_multinode"),
        _ => ("full_finetune_distributed", "_full"),
    }
}

/// `torchtune-llama3.2-1b` runs `llama3_2/1B`.
fn model(job: &TrainJob) -> String {
    let parts: Vec<&str> = job.spec.runtime_ref.name.split('-').collect();
    match parts.as_slice() {
        [_, family, size] => format!("{}/{}", family.replace('.', "_"), size.to_uppercase()),
        _ => String::new(),
    }
}

/// The settings of the runtime's command that stay.
fn kept(info: &Info) -> Vec<String> {
    let trains = info.pod_sets.iter().filter(|pods| pods.is(TRAINER));
    let commands = trains.filter_map(|pods| pods.container(NODE)?.get("command")?.as_array());
    let words = commands.flatten().filter_map(Value::as_str);
    words.filter(|word| IMMUTABLE.contains(&key(word))).map(str::to_owned).collect()
}

fn args(job: &TrainJob) -> &[String] {
    let args = job.spec.trainer.as_ref().and_then(|trainer| trainer.args.as_deref());
    args.unwrap_or_default()
}

fn key(word: &str) -> &str {
    word.split_once('=').map_or(word, |(key, _)| key)
}

fn uses_lora(args: &[String]) -> bool {
    args.iter().any(|arg| arg.contains(LORA))
}

fn uses_qlora(args: &[String]) -> bool {
    is_true(args, QUANTIZE) && !is_true(args, DORA)
}

fn is_true(args: &[String], setting: &str) -> bool {
    args.iter()
        .filter_map(|arg| arg.split_once('='))
        .any(|(key, value)| key.contains(setting) && value.trim().eq_ignore_ascii_case("true"))
}
