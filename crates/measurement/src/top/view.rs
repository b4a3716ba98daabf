//! State of a view: the list shown, the selected row and the order of rows. Keys (`keys`) change it, and `layout`
//! draws it.

use super::grid::{Grid, List, Row};

/// A list that is open, as it was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level<P> {
    pub list: P,
    /// The key of the row that is chosen, which may have gone.
    pub(crate) selected: Option<String>,
    /// The column rows are sorted by.
    pub(crate) column: usize,
    pub(crate) descending: bool,
}

impl<P: List> Level<P> {
    fn new(list: P) -> Self {
        let (column, descending) = list.first_order();
        Self { list, selected: None, column, descending }
    }

    /// The table as it is shown; nothing when what it is about has gone.
    pub(crate) fn grid(&self, known: &P::Known) -> Option<Grid<P>> {
        let mut grid = self.list.grid(known)?;
        grid.sort(self.column, self.descending);
        Some(grid)
    }

    /// Index of the selected row: the first if none is, or if it has gone.
    pub(crate) fn index(&self, rows: &[Row<P>]) -> usize {
        let is_it = |row: &Row<P>| Some(&row.key) == self.selected.as_ref();
        rows.iter().position(is_it).unwrap_or(0)
    }
}

/// State of a view.
#[derive(Debug)]
pub struct View<P> {
    /// The way to where one is; there is always a first.
    levels: Vec<Level<P>>,
    /// True while the help on keys is shown.
    pub help: bool,
    /// True while a column is being chosen.
    pub(crate) choosing: bool,
}

impl<P: List> Default for View<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: List> View<P> {
    /// At the first list.
    pub fn new() -> Self {
        Self { levels: vec![Level::new(P::first())], help: false, choosing: false }
    }

    /// Level shown.
    pub(crate) fn level(&self) -> &Level<P> {
        let last = self.levels.len() - 1;
        &self.levels[last]
    }

    pub(super) fn level_mut(&mut self) -> &mut Level<P> {
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    /// Chooses the row that is `rows` further down, or the last or first there is.
    pub(super) fn go(&mut self, rows: isize, known: Option<&P::Known>) {
        let level = self.level_mut();
        let Some(grid) = known.and_then(|known| level.grid(known)) else { return };
        let last = grid.rows.len().saturating_sub(1);
        let index = level.index(&grid.rows).saturating_add_signed(rows).min(last);
        level.selected = grid.rows.get(index).map(|row| row.key.clone());
    }

    /// Opens the row that is chosen, if it leads anywhere.
    pub(super) fn open(&mut self, known: Option<&P::Known>) {
        let level = self.level_mut();
        let Some(mut grid) = known.and_then(|known| level.grid(known)) else { return };
        if grid.rows.is_empty() {
            return;
        }
        let row = grid.rows.swap_remove(level.index(&grid.rows));
        if let Some(list) = row.opens {
            level.selected = Some(row.key);
            self.levels.push(Level::new(list));
        }
    }

    /// Returns to the previous list, if there is one.
    pub(super) fn back(&mut self) {
        if self.levels.len() > 1 {
            self.levels.pop();
        }
    }

    /// Shows the other list of the same thing.
    pub(super) fn turn(&mut self) {
        if let Some(list) = self.level().list.sibling() {
            *self.level_mut() = Level::new(list);
        }
    }

    /// Sorts by the column that is `columns` further to the right, round the end. Names are best read from A to Z,
    /// numbers from the largest.
    pub(super) fn choose(&mut self, columns: isize) {
        let level = self.level_mut();
        let count = level.list.columns().len();
        level.column = (level.column + count).saturating_add_signed(columns) % count;
        level.descending = level.column > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::super::target_list::TargetList;
    use super::*;
    use crate::target_rates::rates::Rates;

    #[test]
    fn the_way_goes_down_to_queues_and_operations_and_back() {
        let rates = fixture::rates();
        let mut view = View::new();
        view.go(1, Some(&rates));
        view.go(-1, Some(&rates));
        view.open(Some(&rates));
        assert_eq!(view.level().list, TargetList::Controllers(fixture::NQN.into()));
        view.open(Some(&rates));
        assert!(matches!(view.level().list, TargetList::Queues(..)));
        view.open(Some(&rates));
        assert!(matches!(view.level().list, TargetList::Queues(..)), "a queue leads nowhere");
        view.back();
        view.turn();
        view.open(Some(&rates));
        assert_eq!(view.level().list, TargetList::Operations(fixture::NQN.into(), 1));
        (0..5).for_each(|_| view.back());
        assert_eq!(view.level().list, TargetList::Subsystems);
    }

    #[test]
    fn what_is_chosen_stays_chosen_where_it_moves() {
        let rates = fixture::rates();
        let mut view = View::<TargetList>::new();
        view.turn();
        view.go(1, Some(&rates));
        assert_eq!(view.level().selected.as_deref(), Some("1"));
        view.level_mut().descending = true;
        let grid = view.level().grid(&rates).unwrap();
        assert_eq!((view.level().index(&grid.rows), grid.rows[0].key.as_str()), (0, "1"));
        view.go(99, Some(&rates));
        assert_eq!(view.level().selected.as_deref(), Some("0"));
        view.go(-99, Some(&rates));
        assert_eq!(view.level().selected.as_deref(), Some("1"));
    }

    #[test]
    fn nothing_is_chosen_where_there_is_nothing() {
        let mut view = View::<TargetList>::new();
        for rates in [None, Some(&Rates::default())] {
            view.go(1, rates);
            view.open(rates);
            assert_eq!((view.level().selected.as_deref(), view.levels.len()), (None, 1));
        }
        view.levels.push(Level::new(TargetList::Queues("nqn.gone".into(), 7)));
        assert!(view.level().grid(&fixture::rates()).is_none());
        view.go(1, Some(&fixture::rates()));
        view.open(Some(&fixture::rates()));
        assert_eq!(view.levels.len(), 2);
    }

    #[test]
    fn every_column_can_be_sorted_by() {
        let rates = fixture::rates();
        let nqn = || fixture::NQN.to_owned();
        for list in [
            TargetList::Subsystems,
            TargetList::Reactors,
            TargetList::Controllers(nqn()),
            TargetList::Namespaces(nqn()),
            TargetList::Queues(nqn(), 1),
            TargetList::Operations(nqn(), 1),
        ] {
            let mut view = View { levels: vec![Level::new(list.clone())], ..View::new() };
            let first = view.level().column;
            for _ in list.columns() {
                view.choose(1);
                let grid = view.level().grid(&rates).unwrap();
                assert!(grid.rows.iter().all(|row| row.cells.len() == grid.columns.len()), "{list:?}");
            }
            assert_eq!(view.level().column, first, "once round");
            view.choose(-1);
            view.choose(1);
            assert_eq!(view.level().column, first);
        }
    }
}
