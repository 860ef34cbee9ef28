//! Configurations: what they mean, and what is said about bad ones.

use jiff::SignedDuration;
use muster_scheduler::{
    config::{ActionName, Config, Params, parse, shard},
    input::Labels,
};

fn names(config: &Config) -> Vec<&str> {
    config.plugins.iter().map(|plugin| plugin.name.as_str()).collect()
}

#[test]
fn an_empty_configuration_is_the_default() {
    assert_eq!(parse("", &[]).unwrap(), Config::default());
    assert_eq!(parse("actions: \"\"\ntiers: []\n", &[]).unwrap(), Config::default());
    assert_eq!(parse("{}", &[]).unwrap(), Config::default());
}

#[test]
fn tiers_are_one_list_and_arguments_may_be_unquoted() {
    let text = r#"
actions: "reclaim, allocate"
tiers:
- plugins:
  - name: proportion
    arguments: {kValue: 0.5, relcaimerSaturationMultiplier: "2"}
- plugins:
  - name: predicates
  - name: mine
queueDepthPerAction: {reclaim: 3}
scenarioSearchBudgets: {maxJobSearchDuration: 10s}
"#;
    let config = parse(text, &["mine"]).unwrap();
    assert_eq!(config.actions, [ActionName::Reclaim, ActionName::Allocate]);
    let expected = ["proportion", "predicates", "mine", "sg-nodelocalgreedy", "sg-multinodegang"];
    assert_eq!(names(&config), expected, "an old list of plugins gets the searches for victims");
    assert_eq!(config.arguments("proportion").unwrap()["kValue"], "0.5");
    assert_eq!(config.queue_depth[&ActionName::Reclaim], 3);
    assert_eq!(config.budgets.job_max, SignedDuration::from_secs(10));
    assert_eq!(config.notes, []);
}

#[test]
fn a_list_that_names_one_search_for_victims_gets_no_other() {
    let config = parse("tiers: [{plugins: [{name: sg-multinodegang}]}]", &[]).unwrap();
    assert_eq!(names(&config), ["sg-multinodegang"]);
}

#[test]
fn an_unknown_plugin_is_left_out_and_named_with_its_line() {
    let config =
        parse("tiers:\n- plugins:\n  - name: predicates\n  - name: predicats\n", &[]).unwrap();
    let told: Vec<_> = config.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "line 4: there is no plugin `predicats`, so it is left out; correct its name, or build it in"
        ]
    );
}

#[test]
fn what_cannot_be_used_is_refused_with_its_line() {
    let refused = |text: &str| parse(text, &[]).unwrap_err().to_string();
    let error = refused("tiers: []\nactions: allocate, alocate\n");
    assert!(error.starts_with("line 2: there is no action `alocate`: use allocate, "), "{error}");
    let error = refused("actions: allocate\ntiers: 5\n");
    assert!(error.starts_with("line 2, "), "{error}");
    let error = refused("actions: [\n");
    assert!(error.starts_with("line "), "{error}");
    let error = refused("\nqueueDepthPerAction: {reclaim: -1}");
    assert!(error.starts_with("line 2: queueDepthPerAction.reclaim: "), "{error}");
    let error = refused("scenarioSearchBudgets: {maxGeneratorSearchDuration: {Odd: 1s}}");
    assert!(error.contains("maxGeneratorSearchDuration.Odd"), "{error}");
}

#[test]
fn parameters_keep_the_defaults_of_what_they_do_not_name() {
    let text = r#"{"schedulerName":"x","globalDefaultStalenessGracePeriod":-1000000000,"partitionParams":null}"#;
    let params = Params::parse(text).unwrap();
    assert_eq!(params.scheduler_name, "x");
    assert_eq!(params.default_staleness_grace_period, SignedDuration::from_secs(-1));
    assert_eq!(params.max_consolidation_preemptees, 16);
    let error = Params::parse(r#"{"useSchedulingSignatures":3}"#).unwrap_err().to_string();
    assert!(error.starts_with("schedulerParams.useSchedulingSignatures: "), "{error}");
}

#[test]
fn a_shard_becomes_the_configuration_that_its_operator_writes() {
    let config = shard("spec: {}", &[]).unwrap();
    assert_eq!(names(&config)[..3], ["predicates", "proportion", "priority"]);
    assert!(config.has("podaffinity") && config.has("gpupack") && !config.has("gpuspread"));
    assert_eq!(config.actions, ActionName::ALL);

    let text = r#"
spec:
  placementStrategy: {gpu: spread}
  partitionLabelValue: red
  kValue: 2.5
  minRuntime: {reclaimMinRuntime: 5m}
  args: {max-consolidation-preemptees: "3", odd: x}
  plugins: {elastic: {enabled: false}, topology: {priority: 5000, arguments: {a: 1}}, odd: {}}
  actions: {preempt: {priority: 1000}}
"#;
    let config = shard(text, &[]).unwrap();
    assert_eq!(names(&config)[..2], ["topology", "predicates"]);
    assert!(!config.has("elastic") && config.has("gpuspread") && !config.has("gpusharingorder"));
    assert_eq!(config.arguments("nodeplacement").unwrap()["gpu"], "spread");
    assert_eq!(config.arguments("proportion").unwrap()["kValue"], "2.5");
    assert_eq!(config.arguments("minruntime").unwrap()["defaultReclaimMinRuntime"], "5m");
    let actions: Vec<_> = config.actions.iter().map(|action| action.name()).collect();
    assert_eq!(actions, ["preempt", "allocate", "reclaim", "stalegangeviction"]);
    assert_eq!(config.params.max_consolidation_preemptees, 3);
    assert_eq!(config.notes.len(), 2, "{:?}", config.notes);
    let red: Labels = [("kai.scheduler/node-pool", "red")].into_iter().collect();
    assert!(
        config.params.node_pool.takes(&red) && !config.params.node_pool.takes(&Labels::default())
    );
}
