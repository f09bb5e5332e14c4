//! Long texts for who decides by them: how they begin and end, and how much is in between.

/// A text of at most `most` characters, if there is room to say what is missing. Of one that is
/// longer that is its beginning and its end, and between them how many characters are left out:
/// whoever made it cannot hide what it comes to behind something long.
pub(crate) fn cut(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let mark = |left_out: usize| format!(" [... {left_out} characters left out ...] ");
    let kept = most.saturating_sub(mark(count).len());
    let (head, tail) = (kept - kept / 2, kept / 2);
    let mut cut: String = text.chars().take(head).collect();
    cut += &mark(count - kept);
    cut.extend(text.chars().skip(count - tail));
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_has_its_beginning_and_its_end_and_says_what_is_left_out() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("", 0), "");
        let long = format!("begin{}end", "x".repeat(1000));
        assert_eq!(cut(&long, 1008), long);
        let shown = cut(&long, 60);
        assert_eq!(shown, "beginxxxxxxx [... 984 characters left out ...] xxxxxxxxxend");
        // Characters are counted and never split.
        let wide = "é".repeat(500);
        for most in 40..=500 {
            let shown = cut(&wide, most);
            assert!(shown.chars().count() <= most, "{most}");
            let left: usize = shown
                .split_once(" [... ")
                .and_then(|(_, rest)| rest.split_once(' '))
                .map_or(0, |(number, _)| number.parse().unwrap());
            assert_eq!(shown.matches('é').count() + left, 500, "{most}");
        }
        // Where there is room for nothing, that is said.
        assert_eq!(cut(&wide, 3), " [... 500 characters left out ...] ");
    }
}
