//! Which format a group uses: it is raised by the change of the state that says so, and only to one that all gateways read that
//! may come to read it. It is never lowered: a gateway that reads less is refused by what it reads.

use super::format::{Format, Reads};
use super::state::{GroupState, Life};

impl GroupState {
    /// Formats that a gateway reads in its present epoch.
    pub(crate) fn reads_of(&self, name: &str) -> Option<Reads> {
        let epoch = self.gateways.get(name)?.epoch;
        Some(Reads::in_epoch(self.readers.get(name), epoch))
    }

    /// The format that the group may have: the one that it has, or the highest that all its gateways read. One that is silent may
    /// go on, and one that was given up may come back; those that have left read nothing.
    pub(crate) fn common_format(&self) -> Format {
        let staying = self.gateways.iter().filter(|(_, gateway)| gateway.life != Life::Left);
        let highest = staying.filter_map(|(name, _)| self.reads_of(name)).map(|reads| reads.highest()).min();
        highest.map_or(self.format, |highest| highest.max(self.format))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::FORMATS;
    use crate::state::Owner;

    /// A group in the first format, of these gateways.
    fn group(names: &[&str]) -> GroupState {
        let mut state = GroupState { format: Format(1), ..GroupState::default() };
        for name in names {
            let me = Owner { gateway: (*name).to_owned(), epoch: 1 };
            state.register(&me, &[]).unwrap();
        }
        state
    }

    fn says(state: &mut GroupState, name: &str, formats: std::ops::RangeInclusive<u32>) {
        let epoch = state.gateways[name].epoch;
        state.readers.insert(name.to_owned(), Reads::of(epoch, formats));
    }

    #[test]
    fn it_is_what_all_read() {
        let mut state = group(&["a", "b", "c"]);
        assert_eq!(state.common_format(), Format(*FORMATS.end()));
        // One of a version that says nothing of it, and newer ones.
        state.readers.remove("b");
        says(&mut state, "a", 1..=9);
        says(&mut state, "c", 2..=7);
        assert_eq!(state.common_format(), Format(1));
        says(&mut state, "b", 1..=4);
        assert_eq!(state.common_format(), Format(4));
        state.format = Format(4);
        says(&mut state, "b", 1..=2);
        assert_eq!(state.common_format(), Format(4), "what is written stays readable for those who wrote it");
    }

    #[test]
    fn one_that_may_come_back_has_to_read_it_and_one_that_has_left_has_not() {
        let mut state = group(&["a", "old"]);
        state.readers.remove("old");
        for (life, expected) in [(Life::Alive, 1), (Life::Dead, 1), (Life::Left, *FORMATS.end())] {
            state.gateways.get_mut("old").unwrap().life = life;
            assert_eq!(state.common_format(), Format(expected), "{life:?}");
        }
    }

    #[test]
    fn an_older_version_that_comes_back_by_the_name_of_a_newer_one_is_one_that_says_nothing() {
        let mut state = group(&["a", "b"]);
        // As versions up to 0.1 register: what the newer one has said stays where it is.
        let said = state.readers["b"].clone();
        state.register(&Owner { gateway: "b".to_owned(), epoch: 2 }, &[]).unwrap();
        state.readers.insert("b".to_owned(), said);
        assert_eq!(state.common_format(), Format(1));
    }
}
