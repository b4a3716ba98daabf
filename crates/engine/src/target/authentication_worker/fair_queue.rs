//! Queue of jobs for one thread, fair by the time that they take: networks have turns, each with as much of the thread as any
//! other that has jobs, and a job that costs little goes before one that costs much. A crowd waits behind itself, however many
//! connections or costly groups it asks for; who has had little of the thread waits for the job under way, and for jobs of
//! others that cost no more than its own.
//!
//! This is weighted fair queueing, with equal weights, in time that passes as work is done: a job's tag is the virtual time at
//! which its network would have its result if all had a thread of an equal share. The least tag is next.

use std::collections::HashMap;
use std::hash::Hash;

/// A job that waits.
struct Waiting<P, J> {
    party: P,
    job: J,
    cost: u64,
    /// Virtual time at which it came.
    since: u64,
}

/// Jobs `J` of parties `P` that wait, in the order in which they came.
pub(super) struct FairQueue<P, J> {
    waiting: Vec<Waiting<P, J>>,
    virtual_time: u64,
    /// Virtual time until which each party has been served, where that is later than now or the party has jobs.
    served: HashMap<P, u64>,
}

impl<P, J> Default for FairQueue<P, J> {
    fn default() -> Self {
        Self { waiting: Vec::new(), virtual_time: 0, served: HashMap::new() }
    }
}

/// Virtual time passes in thousandths of the unit of costs: a share of one of thousands of networks still counts.
const FRACTIONS: u64 = 1000;

impl<P: Hash + Eq + Copy, J> FairQueue<P, J> {
    /// Adds a job of this cost, in any unit that all jobs have, and never 0.
    pub(super) fn put(&mut self, party: P, job: J, cost: u64) {
        let (cost, since) = (cost.max(1) * FRACTIONS, self.virtual_time);
        self.waiting.push(Waiting { party, job, cost, since });
    }

    /// Number of jobs that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Parties of the jobs that wait.
    pub(super) fn parties(&self) -> impl Iterator<Item = P> {
        self.waiting.iter().map(|waiting| waiting.party)
    }

    /// Drops jobs that are no longer `wanted`.
    pub(super) fn retain(&mut self, wanted: impl Fn(&J) -> bool) {
        self.waiting.retain(|waiting| wanted(&waiting.job));
    }

    /// Takes the next job, of those that may be done now.
    pub(super) fn next(&mut self, may_be_done: impl Fn(&J) -> bool) -> Option<J> {
        let crowds = self.crowds();
        let possible = self.waiting.iter().enumerate().filter(|(_, waiting)| may_be_done(&waiting.job));
        // Of equal ones that of the smallest crowd, and of these the first that came.
        let rank = |(at, waiting): (usize, &Waiting<P, J>)| {
            (self.tag(waiting), crowds.get(&waiting.party).copied(), at)
        };
        let (tag, _, at) = possible.map(rank).min()?;
        let parties = crowds.len() as u64;
        let Waiting { party, job, cost, .. } = self.waiting.remove(at);
        self.served.insert(party, tag);
        self.virtual_time += cost.div_ceil(parties);
        let now = self.virtual_time;
        // A party with jobs that came before keeps its time: else these would count as if it had had nothing.
        self.served.retain(|party, served| *served > now || crowds.contains_key(party));
        Some(job)
    }

    /// Drops a job, since there are too many: the one that would be done last, of the party that has the most.
    pub(super) fn drop_surplus(&mut self) {
        let crowds = self.crowds();
        let weight = |(at, waiting): &(usize, &Waiting<P, J>)| {
            (crowds.get(&waiting.party).copied(), self.tag(waiting), *at)
        };
        if let Some((at, _)) = self.waiting.iter().enumerate().max_by_key(weight) {
            self.waiting.remove(at);
        }
    }

    fn tag(&self, waiting: &Waiting<P, J>) -> u64 {
        self.served.get(&waiting.party).map_or(waiting.since, |served| waiting.since.max(*served))
            + waiting.cost
    }

    fn crowds(&self) -> HashMap<P, usize> {
        let mut crowds = HashMap::new();
        self.waiting.iter().for_each(|waiting| *crowds.entry(waiting.party).or_default() += 1);
        crowds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HONEST: u32 = 0;
    /// Cost of a hash.
    const CHEAP: u64 = 50;
    /// Cost in a usual group.
    const USUAL: u64 = 1_050;
    /// Cost in the costliest group.
    const COSTLY: u64 = 11_050;

    /// Queue in which each of these parties has a costly job, and comes with another as soon as that is done.
    struct Storm {
        queue: FairQueue<u32, u32>,
    }

    impl Storm {
        fn of(parties: std::ops::RangeInclusive<u32>) -> Self {
            let mut storm = Self { queue: FairQueue::default() };
            parties.for_each(|party| storm.queue.put(party, party, COSTLY));
            // For long enough that all have had the same.
            (0..1000).for_each(|_| storm.step());
            storm
        }

        /// Begins and ends one job of others.
        fn step(&mut self) {
            let party = self.queue.next(|_| true).expect("they do not end");
            assert_ne!(party, HONEST);
            self.queue.put(party, party, COSTLY);
        }

        /// Jobs of others that begin while an honest job waits which comes while one is under way.
        fn wait(&mut self, cost: u64) -> u64 {
            let under_way = self.queue.next(|_| true).expect("they do not end");
            self.queue.put(HONEST, HONEST, cost);
            self.queue.put(under_way, under_way, COSTLY);
            let mut others = 0;
            loop {
                match self.queue.next(|_| true).expect("there are many") {
                    HONEST => break,
                    party => {
                        others += 1;
                        self.queue.put(party, party, COSTLY);
                    }
                }
            }
            others
        }
    }

    /// The part of others' jobs that is as much as its own, and the one under way apart.
    #[test]
    fn an_honest_host_that_asks_for_less_waits_for_few_of_the_costly_jobs_of_others() {
        for parties in [1, 30, 120] {
            let mut storm = Storm::of(1..=parties);
            // The steps of an exchange, one after the other.
            for cost in [CHEAP, USUAL, USUAL, CHEAP, CHEAP] {
                let most = u64::from(parties) * cost / COSTLY + 1;
                let others = storm.wait(cost);
                assert!(others <= most, "{others} of {parties} others, cost {cost}");
            }
        }
    }

    #[test]
    fn an_honest_host_waits_for_one_job_of_each_other_network_where_it_asks_for_as_much() {
        for parties in [1, 30, 120] {
            let mut storm = Storm::of(1..=parties);
            for step in 0..4 {
                let others = storm.wait(COSTLY);
                assert!(others <= u64::from(parties) + 1, "{others} of {parties} others, step {step}");
            }
        }
    }

    #[test]
    fn a_crowd_of_one_network_waits_behind_itself() {
        let mut queue = FairQueue::default();
        (0..1000).for_each(|job| queue.put(1, job, COSTLY));
        let under_way = queue.next(|_| true);
        queue.put(2, 1000, COSTLY);
        assert_eq!((under_way, queue.next(|_| true)), (Some(0), Some(1000)));
        assert_eq!(queue.next(|_| true), Some(1), "and among its own the first that came is next");
        // However long it has had the thread alone, it has half of it beside another network.
        (0..100).for_each(|_| assert!(queue.next(|_| true).is_some()));
        queue.put(2, 1000, COSTLY);
        let turns: Vec<u32> = (0..20)
            .map(|_| {
                let job = queue.next(|_| true).expect("there are many");
                if job == 1000 {
                    queue.put(2, 1000, COSTLY);
                }
                job
            })
            .collect();
        let own = turns.iter().filter(|job| **job == 1000).count();
        assert!((9..=11).contains(&own), "{own} of {turns:?}");
    }

    #[test]
    fn networks_that_come_once_keep_no_costly_job_waiting_forever() {
        let mut queue = FairQueue::default();
        queue.put(HONEST, HONEST, COSTLY);
        (1..=120).for_each(|party| queue.put(party, party, CHEAP));
        let mut parties = 121..;
        let turns = std::iter::from_fn(|| {
            let job = queue.next(|_| true).filter(|job| *job != HONEST)?;
            let party = parties.next()?;
            queue.put(party, party, CHEAP);
            Some(job)
        });
        let share = 121 * COSTLY / CHEAP;
        assert!(turns.count() as u64 <= share + 121, "it has its share of the thread");
    }

    #[test]
    fn what_may_not_be_done_now_keeps_its_place() {
        let mut queue = FairQueue::default();
        (0..3).for_each(|job| queue.put(job, job, CHEAP));
        assert_eq!(queue.next(|job| *job == 2), Some(2));
        assert_eq!((queue.next(|_| true), queue.next(|_| true)), (Some(0), Some(1)));
    }

    #[test]
    fn the_largest_crowd_loses_what_would_be_done_last() {
        let mut queue = FairQueue::default();
        queue.put(1, 0, COSTLY);
        for (job, cost) in [(1, CHEAP), (2, COSTLY), (3, CHEAP)] {
            queue.put(2, job, cost);
        }
        queue.drop_surplus();
        let mut left: Vec<_> = std::iter::from_fn(|| queue.next(|_| true)).collect();
        left.sort_unstable();
        assert_eq!(left, [0, 1, 3]);
    }
}
