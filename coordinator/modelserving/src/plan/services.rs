//! Every instance of a role that has a template for workers has a service, though it may have no workers.

use super::Draft;
use crate::service;
use crate::step::Step;
use crate::step::Write;
use crate::store::{GroupState, InstanceState};

impl Draft<'_> {
    pub(super) fn services(&mut self) {
        let mut missing = Vec::new();
        let groups = self.store.groups().iter();
        'groups: for group in groups.filter(|group| group.state != GroupState::Deleting) {
            for role in &self.serving.spec.template.roles {
                let instances = group.instances(&role.name).iter();
                for instance in instances.filter(|it| it.state != InstanceState::Deleting) {
                    if role.worker_template.is_none() {
                        continue;
                    }
                    let name = self.shape.service(&group.name, &instance.id);
                    let Some(name) = name else { continue };
                    let known = self.seen.service_named(&name);
                    if known.is_some_and(|service| !service.ours) {
                        self.plan.later = Some(super::SOON);
                        break 'groups;
                    }
                    if known.is_none() {
                        let (group, id) = (&group.name, &instance.id);
                        let service =
                            service::make(self.serving, self.shape, group, &role.name, id);
                        missing.extend(service);
                    }
                }
            }
        }
        for service in missing {
            self.push(Step::write(Write::Create(service)));
        }
    }
}
