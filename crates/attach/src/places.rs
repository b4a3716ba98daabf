//! Things by places of their own, which are used again: what a command carries to find its way back.

/// Things that come and go. A place that was left is the next one's.
pub(crate) struct Places<T> {
    places: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Places<T> {
    pub(crate) fn add(&mut self, thing: T) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.places[place] = Some(thing);
                place
            }
            None => {
                self.places.push(Some(thing));
                self.places.len() - 1
            }
        }
    }

    pub(crate) fn get(&mut self, place: usize) -> Option<&mut T> {
        self.places.get_mut(place)?.as_mut()
    }

    pub(crate) fn take(&mut self, place: usize) -> Option<T> {
        let thing = self.places.get_mut(place)?.take()?;
        self.free.push(place);
        Some(thing)
    }
}
