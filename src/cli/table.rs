//! Aligned columns.

/// Joins cells into lines, each column as wide as its widest cell; text columns are aligned left, numbers right.
pub(super) fn aligned(lines: &[Vec<String>], is_text: &[bool]) -> String {
    let width = |column: usize| lines.iter().map(|l| l[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..is_text.len()).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .enumerate()
            .map(|(i, cell)| match is_text[i] {
                true => format!("{cell:<0$}", widths[i]),
                false => format!("{cell:>0$}", widths[i]),
            })
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}
