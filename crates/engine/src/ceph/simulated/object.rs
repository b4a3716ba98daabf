//! An object of the simulated cluster, as pairs that are read together and changed together.

use std::sync::Arc;

use super::{CephError, ObjectChange, Pairs, Pool};
use crate::ring::simulated::rados::{self, Answer, Store};

/// An object, which need not be there.
#[derive(Clone, Debug)]
pub struct Object {
    pool: Arc<Pool>,
    name: String,
}

impl Object {
    /// The object with this name.
    ///
    /// # Errors
    /// Never.
    pub fn new(pool: Arc<Pool>, name: &str) -> Result<Self, CephError> {
        let name = format!("{}/{name}", pool.name());
        Ok(Self { pool, name })
    }

    /// The pool it is in.
    pub const fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Pairs whose keys begin with `prefix`, as they are at one moment; `None` if there is no such
    /// object.
    ///
    /// # Errors
    /// When the cluster does not answer in time or refuses.
    pub fn pairs(&self, prefix: &str) -> Result<Option<Pairs>, CephError> {
        let (name, prefix) = (self.name.clone(), prefix.to_owned());
        let outcome = self.call(move |store| {
            let object = store.objects.get(&name);
            let with_prefix = |pairs: &Pairs| {
                let pairs = pairs.iter().filter(|(key, _)| key.starts_with(&prefix));
                pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
            };
            Ok(Answer::Pairs(object.map(|object| with_prefix(&object.pairs))))
        });
        match self.outcome("reading", outcome)? {
            Answer::Pairs(pairs) => Ok(pairs),
            _ => Ok(None),
        }
    }

    /// Makes a change. `false` means that the object is not as the change relies on, and nothing has happened.
    ///
    /// # Errors
    /// When the cluster does not answer in time, or refuses. The change may have happened, or happen yet.
    pub fn change(&self, change: &ObjectChange) -> Result<bool, CephError> {
        let (name, change) = (self.name.clone(), change.clone());
        let outcome = self.call(move |store| {
            let is_there = store.objects.contains_key(&name);
            if change.exclusive && is_there || !change.exclusive && !change.relies_on.is_empty() && !is_there
            {
                return Ok(Answer::Flag(false));
            }
            store.has_changed = true;
            let pairs = &mut store.objects.entry(name.clone()).or_default().pairs;
            let is_so = change.relies_on.iter().all(|(key, value)| pairs.get(key) == Some(value));
            if is_so && change.deletes {
                store.objects.remove(&name);
            } else if is_so {
                pairs.extend(change.set);
                change.remove.iter().for_each(|key| drop(pairs.remove(key)));
            }
            Ok(Answer::Flag(is_so))
        });
        Ok(self.outcome("changing", outcome)? == Answer::Flag(true))
    }

    /// Tells those who watch it, and waits until they have heard of it, for `timeout_ms` at most.
    ///
    /// # Errors
    /// When one of them did not say that it has, or the cluster does not answer.
    pub fn notify(&self, timeout_ms: u64) -> Result<(), CephError> {
        let cluster = self.pool.cluster();
        let outcome = rados::notify(cluster.id(), &self.name, timeout_ms);
        self.outcome("notifying its watchers", outcome).map(drop)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn call(
        &self,
        work: impl FnOnce(&mut Store) -> Result<Answer, i32> + 'static,
    ) -> Result<Answer, i32> {
        let cluster = self.pool.cluster();
        rados::call(cluster.id(), &self.name, cluster.timeout_ms(), move |store, _| work(store))
    }

    pub(super) fn outcome<T>(&self, what: &'static str, outcome: Result<T, i32>) -> Result<T, CephError> {
        self.pool.cluster().outcome(what, &format!("object {}", self.name), outcome)
    }
}
