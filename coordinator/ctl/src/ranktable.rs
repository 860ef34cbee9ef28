//! `ranktable render`, `check` and `diff`.

use std::collections::BTreeSet;
use std::io::Write;

use muster_ranktable::{Facts, Pod, Request, Severity, TableTemplate, migrate};

use crate::args::{CheckArgs, DiffArgs, Output, RenderArgs};
use crate::{Failure, input};

pub(crate) fn render(args: &RenderArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let template = input::config_map(&args.template)?;
    let parser = input::parser(args.parser.as_deref(), &template, &args.template)?;
    let template = match args.lenient {
        true => TableTemplate::read_unverified(&template, parser.as_ref()),
        false => TableTemplate::read(&template, parser.as_ref()),
    }
    .map_err(Failure::wrong)?;
    let pods = group(input::pods(&args.pods)?, args.group.as_deref())?;
    let previous = match &args.previous {
        Some(path) => {
            let table = migrate::table(&input::text(path)?);
            Some(table.map_err(|error| input::wrong(path, error))?.ranks)
        }
        None => None,
    };
    let now = args.now.clone().unwrap_or_else(|| format!("{:.0}", jiff::Timestamp::now()));
    let request = Request {
        changed: &now,
        order: args.order,
        previous: previous.as_ref(),
        topology: None,
        lenient: args.lenient,
    };
    let rendered = template.render(&pods, &request).map_err(Failure::wrong)?;
    out.write_all(rendered.text.as_bytes())?;
    Ok(false)
}

/// The pods of one group: the named one, or the only one.
fn group(pods: Vec<Pod>, name: Option<&str>) -> Result<Vec<Pod>, Failure> {
    if let Some(name) = name {
        return Ok(pods.into_iter().filter(|pod| pod.rank_group() == Some(name)).collect());
    }
    let groups: BTreeSet<&str> = pods.iter().filter_map(Pod::rank_group).collect();
    if groups.len() > 1 {
        let names = groups.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Failure::Usage(format!(
            "the pods are of several rank groups; choose one with --group: {names}"
        )));
    }
    Ok(pods)
}

pub(crate) fn check(args: &CheckArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let pods = args.pods.as_deref().map(input::pods).transpose()?.unwrap_or_default();
    // A pod on the host's network has the host's address.
    let own = pods.into_iter().filter(|pod| !pod.pod_ip.is_empty() && pod.pod_ip != pod.host_ip);
    let facts = Facts { chip: args.chip, pod_ips: own.map(|pod| pod.pod_ip).collect() };
    let findings = muster_ranktable::check(&input::text(&args.file)?, &facts);
    match args.output {
        Output::Text => {
            for finding in &findings {
                writeln!(out, "{finding}")?;
            }
        }
        Output::Json => {
            writeln!(out, "{}", serde_json::to_string_pretty(&findings).map_err(Failure::wrong)?)?
        }
    }
    Ok(findings.iter().any(|finding| args.strict || finding.severity == Severity::Error))
}

pub(crate) fn diff(args: &DiffArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let (before, after) = (input::text(&args.before)?, input::text(&args.after)?);
    let diff = muster_ranktable::diff(&before, &after).map_err(|error| {
        let path = if error.is_of_the_first() { &args.before } else { &args.after };
        Failure::Usage(format!("{}: {error}", path.display()))
    })?;
    match args.output {
        Output::Text => write!(out, "{diff}")?,
        Output::Json => {
            writeln!(out, "{}", serde_json::to_string_pretty(&diff).map_err(Failure::wrong)?)?
        }
    }
    Ok(!diff.is_empty())
}
