//! DI-engine's own client talks to the server, where it can be installed.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use muster_dijob::server::Trust;
use muster_tests::World;
use muster_tests::world::coordinators::Choices;
use tokio::process::Command;

use super::running;

/// Fetches the package without its dependencies, and leaves of it what the client of the server needs.
const INSTALL: &str = r#"
set -e
cd "$1"
cat > pinned.txt <<'END'
DI-engine==0.5.3 --hash=sha256:1284ab6af1b0ad70fe8c159c65a71ea932b18e7573d7f07892b563df9a0d25e3
END
python3 -m pip download --quiet --no-deps --require-hashes --dest wheels -r pinned.txt
mkdir -p unpacked
for file in wheels/*; do
  case "$file" in
    *.whl) python3 -m zipfile -e "$file" unpacked ;;
    *.tar.gz) tar -xzf "$file" -C unpacked --strip-components=1 ;;
  esac
done
python3 -m venv --system-site-packages venv
venv/bin/pip install --quiet requests==2.34.2 urlobject==3.0.0
venv/bin/python -c 'import requests, urlobject'
"#;

/// Loads the client alone: the package itself would import all of PyTorch.
const CLIENT: &str = r#"
import importlib.util, os, sys, types
root = os.path.join(sys.argv[1], 'unpacked', 'ding')
def package(name, path):
    module = types.ModuleType(name); module.__path__ = [path]; sys.modules[name] = module
for name in ['ding', 'ding.interaction', 'ding.interaction.base', 'ding.worker', 'ding.worker.coordinator']:
    package(name, os.path.join(root, *name.split('.')[1:]))
def load(name):
    path = os.path.join(root, *name.split('.')[1:]) + '.py'
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec); sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
base = sys.modules['ding.interaction.base']
for part in ['common', 'app', 'network', 'threading']:
    try:
        module = load('ding.interaction.base.' + part)
    except Exception as error:
        print('passed over', part, error); continue
    for key, value in vars(module).items():
        if not key.startswith('__'): setattr(base, key, value)
server = load('ding.worker.coordinator.operator_server')
host, port = sys.argv[2].split(':')
namespace, coordinator = sys.argv[3], sys.argv[4]
client = server.OperatorServer(host, int(port), namespace=namespace, name=coordinator)
client.set_worker_type('coordinator')
def ask(what, *args):
    answer = getattr(client, what)(*args)
    print(what, answer)
    success, code, message, data = answer
    assert success, answer
    return data
assert ask('get_replicas')['collectors'] == []
made = ask('post_replicas', {'collectors': {'replicas': 2, 'cpus': '0.1'}, 'learners': {'replicas': 1, 'gpus': '0'}})
assert len(made['collectors']) == 2 and len(made['learners']) == 1, made
seen = ask('get_replicas')
assert sorted(seen['collectors']) == sorted(made['collectors']), seen
name = made['collectors'][0].split(':')[0].rsplit('.', 1)[0]
again = ask('post_replicas_failed', [name], [])
assert len(again['collectors']) == 1 and again['collectors'] != [made['collectors'][0]], again
gone = ask('delete_replicas', 1, 1)
assert len(gone['collectors']) == 1 and len(gone['learners']) == 1, gone
print('DONE')
"#;

/// Puts the package there.
async fn install(folder: &Path) -> Result<()> {
    let mut shell = Command::new("sh");
    shell.args(["-c", INSTALL, "sh"]).arg(folder).stdin(Stdio::null()).kill_on_drop(true);
    let ran = tokio::time::timeout(Duration::from_secs(120), shell.output()).await;
    let output = ran.context("DI-engine cannot be installed within two minutes")??;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "DI-engine cannot be installed: {why}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_of_di_engine_lists_makes_replaces_and_deletes_replicas() -> Result<()> {
    if std::env::var_os("MUSTER_PYPI").is_none_or(|set| set != "1") {
        eprintln!("left out: MUSTER_PYPI=1 lets this test fetch DI-engine from PyPI");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let place = folder.path();
    install(place).await?;
    World::new()
        .nodes(1)
        .coordinators(1)
        // It calls from this machine, not from a pod, and cannot send a token.
        .choices(Choices { di_trust: Trust::Anyone, ..Choices::default() })
        .run(async |world| {
            running(world, "ding", "Running").await?;
            let address = world.coordinators()?.di_server().to_string();
            let mut python = Command::new(place.join("venv/bin/python"));
            python.args(["-c", CLIENT]).arg(place).args([
                &address,
                world.namespace(),
                "ding-coordinator",
            ]);
            let python = python.kill_on_drop(true).output();
            let ran = tokio::time::timeout(Duration::from_secs(60), python).await;
            let output = ran.context("the client does not end")??;
            let said = String::from_utf8_lossy(&output.stdout);
            println!("{said}");
            let wrong = String::from_utf8_lossy(&output.stderr);
            ensure!(said.contains("DONE"), "{said}\n{wrong}");
            Ok(())
        })
        .await
}
