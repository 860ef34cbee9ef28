//! The difference of two texts, line by line, with three lines of context.

const CONTEXT: usize = 3;

/// Old lines `a..b` became new lines `c..d`.
type DiffBlock = (usize, usize, usize, usize);

/// The difference in the unified form, without a header.
pub(super) fn unified(old: &str, new: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let mut out = String::new();
    for hunk in hunks(&changes(&a, &b)) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let before = first.0.min(CONTEXT);
        let after = (a.len() - last.1).min(CONTEXT);
        let (start, end) = (first.0 - before, last.1 + after);
        let (new_start, new_end) = (first.2 - before, last.3 + after);
        out.push_str(&format!("@@ -{} +{} @@\n", range(start, end), range(new_start, new_end)));
        let mut at = start;
        for &(from, to, new_from, new_to) in hunk {
            lines(&mut out, ' ', &a[at..from]);
            lines(&mut out, '-', &a[from..to]);
            lines(&mut out, '+', &b[new_from..new_to]);
            at = to;
        }
        lines(&mut out, ' ', &a[at..end]);
    }
    out
}

fn lines(out: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        out.push(sign);
        out.push_str(line);
        out.push('\n');
    }
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

/// Changes that are close together are shown together.
fn hunks(changes: &[DiffBlock]) -> impl Iterator<Item = &[DiffBlock]> {
    changes.chunk_by(|left, right| right.0 - left.1 <= 2 * CONTEXT)
}

/// What changed, by the longest common run of lines.
fn changes(a: &[&str], b: &[&str]) -> Vec<DiffBlock> {
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let left = a.len().min(b.len()) - head;
    let tail = a.iter().rev().zip(b.iter().rev()).take(left).take_while(|(x, y)| x == y).count();
    let (x, y) = (&a[head..a.len() - tail], &b[head..b.len() - tail]);
    let width = y.len() + 1;
    let mut common = vec![0u32; (x.len() + 1) * width];
    for i in (0..x.len()).rev() {
        for j in (0..y.len()).rev() {
            common[i * width + j] = if x[i] == y[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let mut found: Vec<DiffBlock> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < x.len() || j < y.len() {
        if i < x.len() && j < y.len() && x[i] == y[j] {
            i += 1;
            j += 1;
            continue;
        }
        let down = i < x.len()
            && (j == y.len() || common[(i + 1) * width + j] >= common[i * width + j + 1]);
        let (ni, nj) = if down { (i + 1, j) } else { (i, j + 1) };
        match found.last_mut() {
            Some(last) if last.1 == head + i && last.3 == head + j => {
                (last.1, last.3) = (head + ni, head + nj);
            }
            _ => found.push((head + i, head + ni, head + j, head + nj)),
        }
        (i, j) = (ni, nj);
    }
    found
}
