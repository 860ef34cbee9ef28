use super::*;

fn kinds(source: &str) -> Vec<Kind> {
    let mut lexer = Lexer::new(source);
    let mut kinds = Vec::new();
    loop {
        let token = lexer.next();
        kinds.push(token.kind);
        if matches!(token.kind, Kind::End | Kind::Error) {
            return kinds;
        }
    }
}

fn complaint(source: &str) -> Complaint {
    let mut lexer = Lexer::new(source);
    loop {
        let token = lexer.next();
        if matches!(token.kind, Kind::End | Kind::Error) {
            return token.complaint;
        }
    }
}

#[test]
fn marks_trim_only_the_four_blanks_and_only_beside_a_blank() {
    let text = |source: &'static str| {
        let mut lexer = Lexer::new(source);
        let mut texts = Vec::new();
        loop {
            let token = lexer.next();
            match token.kind {
                Kind::Text => texts.push(token.text),
                Kind::End | Kind::Error => return texts,
                _ => {}
            }
        }
    };
    assert_eq!(text("a \t\r\n{{- 1 -}}\n b"), ["a", "b"]);
    assert_eq!(text("a {{-1}} b"), ["a ", " b"]);
    assert_eq!(text("a\u{b} {{- 1 -}}\u{a0}b"), ["a\u{b}", "\u{a0}b"]);
    assert_eq!(text("a {{- /* gone */ -}} b"), ["a", "b"]);
    assert_eq!(text("}} {{1}}{"), ["}} ", "{"]);
    assert_eq!(text("  {{- 1}}"), [""; 0]);
}

#[test]
fn words_numbers_and_strings_get_their_kinds() {
    use Kind::{
        Bool, CharConstant, Complex, End, Field, Identifier, Left, Number, RawString, Right, Space,
        Variable,
    };
    for (source, kind) in [
        ("{{true}}", Bool),
        ("{{nil}}", Kind::Keyword(Keyword::Nil)),
        ("{{nile}}", Identifier),
        ("{{.a}}", Field),
        ("{{.}}", Kind::Dot),
        ("{{.5}}", Number),
        ("{{-0x1p-2}}", Number),
        ("{{1+2i}}", Complex),
        ("{{$}}", Variable),
        ("{{$a_1}}", Variable),
        ("{{'\\''}}", CharConstant),
        ("{{`\n`}}", RawString),
        ("{{\"\\\"\"}}", Kind::String),
        ("{{!}}", Kind::Char),
    ] {
        assert_eq!(kinds(source), [Left, kind, Right, End], "{source}");
    }
    assert_eq!(kinds("{{a\n\t -}} "), [Left, Identifier, Space, Right, End]);
}

#[test]
fn a_bad_source_says_what_is_wrong() {
    for (source, expected) in [
        ("{{", Complaint::Plain("unclosed action")),
        ("{{(}}", Complaint::Plain("unclosed left paren")),
        ("{{)}}", Complaint::Plain("unexpected right paren")),
        ("{{:}}", Complaint::Plain("expected :=")),
        ("{{\"a", Complaint::Plain("unterminated quoted string")),
        ("{{\"a\n\"}}", Complaint::Plain("unterminated quoted string")),
        ("{{`a", Complaint::Plain("unterminated raw quoted string")),
        ("{{'a", Complaint::Plain("unterminated character constant")),
        ("{{/* a", Complaint::Plain("unclosed comment")),
        ("{{/* a */ }}", Complaint::Plain("comment ends before closing delimiter")),
        ("{{.a-b}}", Complaint::BadCharacter(Some('-'))),
        ("{{1a}}", Complaint::BadNumber),
        ("{{1+2}}", Complaint::BadNumber),
        ("{{\u{1}}}", Complaint::Unrecognized('\u{1}')),
    ] {
        assert_eq!(complaint(source), expected, "{source}");
    }
}
