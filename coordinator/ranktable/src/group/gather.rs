//! What all pods of a group say. Reading annotations is most of the work for a table, and each is read for itself: for
//! thousands of them every core takes a part.

use super::{GroupError, validate};
use crate::parse::{Parser, PodData};
use crate::pod::Pod;
use crate::template::TableTemplate;

/// As many pods are worth a thread.
const PART: usize = 1000;
/// No table needs more threads.
const MOST: usize = 8;

/// Reads the pods and hands each with its data on, in the order of the pods. Of several errors the first pod's counts.
pub(super) fn gather(
    template: &TableTemplate,
    pods: &[Pod],
    lenient: bool,
    take: impl FnMut(&Pod, PodData),
) -> Result<(), GroupError> {
    let threads = match pods.len() / PART {
        0 | 1 => 1,
        parts => std::thread::available_parallelism().map_or(1, usize::from).min(parts).min(MOST),
    };
    within(threads, template, pods, lenient, take)
}

fn within(
    threads: usize,
    template: &TableTemplate,
    pods: &[Pod],
    lenient: bool,
    mut take: impl FnMut(&Pod, PodData),
) -> Result<(), GroupError> {
    let mut parts = pods.chunks(pods.len().div_ceil(threads.max(1)).max(1));
    // This thread has the first part, and nothing of it waits.
    let own = parts.next().unwrap_or_default();
    std::thread::scope(|scope| {
        let others: Vec<_> = parts
            .map(|part| {
                let work = move || {
                    let mut parser = Parser::new(template);
                    let read = |pod| read(&mut parser, pod, lenient);
                    part.iter().map(read).collect::<Result<Vec<_>, _>>()
                };
                (part, scope.spawn(work))
            })
            .collect();
        let mut parser = Parser::new(template);
        for pod in own {
            if let Some(data) = read(&mut parser, pod, lenient)? {
                take(pod, data);
            }
        }
        for (part, other) in others {
            let read = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            for (pod, data) in part.iter().zip(read) {
                if let Some(data) = data {
                    take(pod, data);
                }
            }
        }
        Ok(())
    })
}

/// What a pod says; nothing if it says nothing and that may be.
fn read(parser: &mut Parser<'_>, pod: &Pod, lenient: bool) -> Result<Option<PodData>, GroupError> {
    let parsed = match (&pod.reported, pod.annotation()) {
        (Some(reported), _) => parser.take(reported),
        (None, Some(annotation)) => parser.parse(annotation),
        (None, None) if lenient => return Ok(None),
        (None, None) => {
            return Err(GroupError::NotAnnotated { missing: vec![pod.full_name()], of: 1 });
        }
    };
    let data = parsed.map_err(|error| {
        let pod = pod.full_name();
        GroupError::Unreadable { pod, error }
    })?;
    if !lenient {
        validate(pod, &data)?;
    }
    Ok(Some(data))
}

#[cfg(test)]
mod tests {
    use muster_proto::annotation::KEY;

    use super::*;
    use crate::template::ConfigMap;

    fn template() -> TableTemplate {
        let data = [("ranktable-template".to_owned(), "x".to_owned())].into();
        let config_map = ConfigMap { name: "t".into(), data, ..ConfigMap::default() };
        TableTemplate::read(&config_map, None).unwrap()
    }

    fn pod(index: usize) -> Pod {
        let text = format!(
            r#"{{"pod_name":"x","server_id":"s-{}","devices":[{{"device_id":"{index}"}}]}}"#,
            index / 3
        );
        let annotations = [(KEY.to_owned(), text)].into();
        Pod { name: format!("w-{index}"), annotations, ..Pod::default() }
    }

    fn gathered(threads: usize, pods: &[Pod], lenient: bool) -> Result<Vec<String>, GroupError> {
        let mut all = Vec::new();
        let take = |pod: &Pod, data: PodData| {
            all.push(format!("{} {} {:?}", pod.name, data.server_id, data.devices));
        };
        within(threads, &template(), pods, lenient, take).map(|()| all)
    }

    #[test]
    fn many_threads_hand_on_what_one_does() {
        for count in [0, 1, 2, 3, 7, 100] {
            let mut pods: Vec<Pod> = (0..count).map(pod).collect();
            let one = gathered(1, &pods, false).unwrap();
            assert_eq!(one.len(), count);
            for threads in [2, 3, 8, 200] {
                assert_eq!(gathered(threads, &pods, false).unwrap(), one);
            }
            if let Some(pod) = pods.last_mut() {
                pod.annotations.clear();
                assert_eq!(gathered(3, &pods, true).unwrap().len(), count - 1);
                assert_eq!(gathered(3, &pods, false).unwrap_err().reason(), "annotation-missing");
            }
        }
    }

    #[test]
    fn of_several_errors_the_first_pods_counts() {
        let mut pods: Vec<Pod> = (0..30).map(pod).collect();
        for index in [11, 17, 29] {
            pods[index].annotations.insert(KEY.to_owned(), "{".to_owned());
        }
        let one = gathered(1, &pods, false).unwrap_err();
        assert!(one.to_string().contains("w-11:"), "{one}");
        for threads in [2, 3, 30] {
            assert_eq!(gathered(threads, &pods, false).unwrap_err(), one);
        }
    }
}
