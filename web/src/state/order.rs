//! Lists that hold still while someone is about to click.

/// The order to show: `wanted`, unless the list is held. Held, what is shown stays where it is (what left the list too,
/// so that nothing moves up); new ones come at the end.
pub fn held<T: Clone + PartialEq>(shown: &[T], wanted: &[T], hold: bool) -> Vec<T> {
    if !hold {
        return wanted.to_vec();
    }
    let new = wanted.iter().filter(|id| !shown.contains(id));
    shown.iter().chain(new).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_list_keeps_its_rows_in_place_and_adds_at_the_end() {
        assert_eq!(held(&[1, 2, 3], &[4, 3, 1], true), [1, 2, 3, 4]);
        assert_eq!(held(&[1, 2, 3], &[4, 3, 1], false), [4, 3, 1]);
        assert_eq!(held(&[], &[2, 1], true), [2, 1]);
    }
}
