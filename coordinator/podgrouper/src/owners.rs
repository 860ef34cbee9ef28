//! Who owns a pod, up to the top.

use std::sync::Arc;

use crate::base::Context;
use crate::error::{Class, GroupError};
use crate::object::{Object, OwnerRef};
use crate::objects::{Key, Refusal};

/// More owners above each other than anybody has.
const HIGHEST: usize = 32;

/// Who owns a pod.
pub struct Owners {
    /// The last one that can be read; the pod itself if there is none.
    pub top: Arc<Object>,
    /// All of them, nearest to the pod first, the top last. Empty if the pod is its own top.
    pub chain: Vec<Arc<Object>>,
}

/// Follows the first owner reference of the pod, and the only one of each owner.
pub fn of(cx: &Context<'_>) -> Result<Owners, GroupError> {
    let mut chain: Vec<Arc<Object>> = Vec::new();
    let mut next = cx.pod.owners().into_iter().next();
    while let Some(reference) = next {
        if chain.len() >= HIGHEST {
            return Err(GroupError::new(
                Class::OwnerLoop,
                cx.pod.shown(),
                "metadata.ownerReferences",
                format!("there are more than {HIGHEST} owners above each other"),
                "break the circle of owners",
            ));
        }
        let Some(owner) = read(cx, &reference)? else { break };
        let mut above = owner.owners();
        if above.len() > 1 {
            return Err(GroupError::new(
                Class::MultipleOwners,
                owner.shown(),
                "metadata.ownerReferences",
                format!("it has {} owners", above.len()),
                "leave one of them",
            ));
        }
        chain.push(owner);
        next = above.pop();
    }
    let top = match chain.last() {
        Some(top) => top.clone(),
        None => Arc::new(cx.pod.clone()),
    };
    Ok(Owners { top, chain })
}

/// The owner; nothing if it may not be read.
fn read(cx: &Context<'_>, owner: &OwnerRef) -> Result<Option<Arc<Object>>, GroupError> {
    let OwnerRef { api_version, kind, name, uid } = owner;
    let key = Key::new(api_version, kind, cx.pod.namespace(), name);
    let error =
        |class, detail: String, remedy| GroupError::new(class, key.to_string(), "", detail, remedy);
    match cx.objects.get(&key) {
        Ok(found) if found.uid() == uid => Ok(Some(found)),
        Ok(found) => Err(error(
            Class::OwnerUidMismatch,
            format!("its uid is {}, and {} names {uid}", found.uid(), cx.pod.shown()),
            "delete the pod: its owner is gone and another one has its name",
        )),
        Err(Refusal::Forbidden) => Ok(None),
        Err(Refusal::Unread) => Err(GroupError::unread(key)),
        Err(Refusal::Absent) => Err(error(
            Class::OwnerNotFound,
            format!("{} names it as owner, and it is not there", cx.pod.shown()),
            "delete the pod, or wait until it is collected with its owner",
        )),
    }
}
