//! Effect of keys in a view.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::grid::List;
use super::view::View;

/// Rows that Page Up and Page Down go.
const PAGE: isize = 10;

/// Action outside of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// No action.
    Stay,
    /// Hold what is shown, or let it go on.
    Pause,
    /// End.
    Quit,
}

/// Returns the help on keys.
pub(crate) const fn explained<P: List>() -> [(&'static str, &'static str); 8] {
    [
        ("↑ ↓ k j", "choose a row; Page Up, Page Down, Home and End go further"),
        ("Enter →", P::OPENS),
        ("Esc ←", "go back"),
        ("Tab", P::OTHER),
        ("s", "choose the column to sort by with s ← →, and Enter to end it"),
        ("r", "turn the order round"),
        ("p", "pause, and go on"),
        ("q", P::ENDS),
    ]
}

impl<P: List> View<P> {
    /// Does what a key is for, looking at what is shown.
    pub fn press(&mut self, key: KeyEvent, known: Option<&P::Known>) -> Wish {
        if key.kind == KeyEventKind::Release {
            return Wish::Stay;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Wish::Quit } else { Wish::Stay };
        }
        match key.code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('p') => return Wish::Pause,
            _ if self.help => self.help = false,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('r') => self.reverse(),
            code if self.choosing => self.press_choosing(code),
            KeyCode::Char('s') => self.choosing = true,
            KeyCode::Up | KeyCode::Char('k') => self.go(-1, known),
            KeyCode::Down | KeyCode::Char('j') => self.go(1, known),
            KeyCode::PageUp => self.go(-PAGE, known),
            KeyCode::PageDown => self.go(PAGE, known),
            KeyCode::Home => self.go(isize::MIN, known),
            KeyCode::End => self.go(isize::MAX, known),
            KeyCode::Enter | KeyCode::Right => self.open(known),
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => self.back(),
            KeyCode::Tab | KeyCode::BackTab => self.turn(),
            _ => {}
        }
        Wish::Stay
    }

    fn press_choosing(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char('s') | KeyCode::Right => self.choose(1),
            KeyCode::Left => self.choose(-1),
            KeyCode::Enter | KeyCode::Esc => self.choosing = false,
            _ => {}
        }
    }

    fn reverse(&mut self) {
        let level = self.level_mut();
        level.descending = !level.descending;
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::super::target_list::TargetList;
    use super::*;

    fn press(view: &mut View<TargetList>, code: KeyCode) -> Wish {
        view.press(KeyEvent::new(code, KeyModifiers::NONE), Some(&fixture::rates()))
    }

    #[test]
    fn every_way_out_is_one() {
        let mut view = View::new();
        assert_eq!(press(&mut view, KeyCode::Char('q')), Wish::Quit);
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(view.press(ctrl_c, None), Wish::Quit);
        view.help = true;
        assert_eq!(press(&mut view, KeyCode::Char('q')), Wish::Quit, "also from the help");
        view.help = false;
        view.choosing = true;
        assert_eq!(press(&mut view, KeyCode::Char('q')), Wish::Quit, "also while choosing");
        assert_eq!(press(&mut view, KeyCode::Esc), Wish::Stay, "Esc goes back and never ends it");
        assert_eq!(press(&mut view, KeyCode::Esc), Wish::Stay);
        assert_eq!(press(&mut view, KeyCode::Char('p')), Wish::Pause);
    }

    #[test]
    fn a_key_that_is_let_go_does_nothing() {
        let mut view = View::<TargetList>::new();
        let mut key = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        key.kind = KeyEventKind::Release;
        assert_eq!(view.press(key, None), Wish::Stay);
    }

    #[test]
    fn help_goes_with_any_key() {
        let mut view = View::new();
        press(&mut view, KeyCode::Char('?'));
        assert!(view.help);
        press(&mut view, KeyCode::Enter);
        assert!(!view.help);
        assert_eq!(view.level().list, TargetList::Subsystems, "it did nothing else");
    }

    #[test]
    fn a_column_is_chosen_with_arrows_while_it_is_chosen() {
        let mut view = View::new();
        let before = view.level().column;
        press(&mut view, KeyCode::Char('s'));
        assert_eq!((view.choosing, view.level().column), (true, before));
        press(&mut view, KeyCode::Char('s'));
        press(&mut view, KeyCode::Right);
        assert_eq!(view.level().column, before + 2);
        press(&mut view, KeyCode::Left);
        assert_eq!((view.level().column, view.level().descending), (before + 1, true));
        press(&mut view, KeyCode::Char('r'));
        assert!(!view.level().descending);
        press(&mut view, KeyCode::Char('r'));
        press(&mut view, KeyCode::Enter);
        assert!(!view.choosing);
        assert_eq!(view.level().list, TargetList::Subsystems, "Enter ended the choice and opened nothing");
        press(&mut view, KeyCode::Enter);
        assert_eq!(view.level().list, TargetList::Controllers(fixture::NQN.into()));
        press(&mut view, KeyCode::Tab);
        assert_eq!(view.level().list, TargetList::Namespaces(fixture::NQN.into()));
        press(&mut view, KeyCode::Left);
        assert_eq!(view.level().list, TargetList::Subsystems);
    }
}
