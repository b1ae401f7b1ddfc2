//! What changed between two texts, by lines.

/// Lines that are compared on each side after what is equal at both ends was taken off. Beyond it nobody reads it anyway.
const MOST_LINES: usize = 2_000;
/// Equal lines shown around a change.
const CONTEXT: usize = 3;

/// A line of the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// In both.
    Same(String),
    /// Only in the old one.
    Gone(String),
    /// Only in the new one.
    New(String),
    /// Equal lines that are left out.
    Skipped(usize),
}

/// The lines of the comparison; `None`: too much is different.
pub fn diff(old: &str, new: &str) -> Option<Vec<Line>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    if a.len() > MOST_LINES || b.len() > MOST_LINES {
        return None;
    }
    // Longest common subsequence; lengths of the rest, from the ends.
    let width = b.len() + 1;
    let mut common = vec![0u16; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i * width + j] = if a[i] == b[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let mut lines: Vec<Line> = old[..start].iter().map(|line| Line::Same((*line).to_owned())).collect();
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            lines.push(Line::Same(a[i].to_owned()));
            (i, j) = (i + 1, j + 1);
        } else if i < a.len() && (j == b.len() || common[(i + 1) * width + j] >= common[i * width + j + 1]) {
            lines.push(Line::Gone(a[i].to_owned()));
            i += 1;
        } else {
            lines.push(Line::New(b[j].to_owned()));
            j += 1;
        }
    }
    lines.extend(old[old.len() - end..].iter().map(|line| Line::Same((*line).to_owned())));
    Some(shorten(lines))
}

/// Leaves out equal lines that are far from any change.
fn shorten(lines: Vec<Line>) -> Vec<Line> {
    let mut near = vec![false; lines.len()];
    for (at, line) in lines.iter().enumerate() {
        if !matches!(line, Line::Same(_)) {
            let end = (at + CONTEXT + 1).min(lines.len());
            near[at.saturating_sub(CONTEXT)..end].fill(true);
        }
    }
    let mut short = Vec::new();
    for (line, near) in lines.into_iter().zip(near) {
        match (near, short.last_mut()) {
            (true, _) => short.push(line),
            (false, Some(Line::Skipped(count))) => *count += 1,
            (false, _) => short.push(Line::Skipped(1)),
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_in_the_middle_has_three_equal_lines_around_it() {
        let old = (0..20).map(|n| n.to_string()).collect::<Vec<_>>().join("\n") + "\n";
        let new = old.replace("10\n", "ten\nand a half\n");
        let lines = diff(&old, &new).expect("small");
        assert_eq!(lines.first(), Some(&Line::Skipped(7)));
        assert_eq!(
            &lines[4..7],
            [Line::Gone("10".to_owned()), Line::New("ten".to_owned()), Line::New("and a half".to_owned())]
        );
        assert_eq!(lines.last(), Some(&Line::Skipped(6)));
    }

    #[test]
    fn texts_that_are_equal_or_empty_have_no_change() {
        assert_eq!(diff("a\nb", "a\nb"), Some(vec![Line::Skipped(2)]));
        assert_eq!(diff("", ""), Some(vec![]));
        assert_eq!(diff("", "x"), Some(vec![Line::New("x".to_owned())]));
        assert_eq!(diff("a\na", "a"), Some(vec![Line::Same("a".to_owned()), Line::Gone("a".to_owned())]));
    }

    #[test]
    fn too_much_is_said_instead_of_waited_for() {
        let (old, new): (String, String) = (0..=MOST_LINES).map(|n| (format!("a{n}\n"), format!("b{n}\n"))).collect();
        assert_eq!(diff(&old, &new), None);
    }
}
