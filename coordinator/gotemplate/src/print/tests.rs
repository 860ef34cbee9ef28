use super::verbs::printf;
use super::*;
use crate::value::{Text, Value};

fn formatted(format: &str, operands: &[Value<'_>]) -> String {
    let mut out = Output::new(1 << 20);
    printf(&mut out, format.as_bytes(), operands);
    crate::unicode::to_text(out.into_bytes())
}

fn plain(value: &Value<'_>) -> String {
    shown(value)
}

fn nested<'a>() -> Value<'a> {
    let inner =
        Value::map(vec![(Text::from("k"), Value::Nil), (Text::from("a"), Value::Float(1.5))]);
    Value::list(vec![Value::Int(1), Value::from("x"), Value::Nil, inner])
}

#[test]
fn floats_change_notation_where_go_does() {
    for (number, expected) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (3.0, "3"),
        (0.1, "0.1"),
        (100_000.0, "100000"),
        (999_999.0, "999999"),
        (1_000_000.0, "1e+06"),
        (67_108_864.0, "6.7108864e+07"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e100, "1e+100"),
        (5e-324, "5e-324"),
        (f64::MAX, "1.7976931348623157e+308"),
        (f64::INFINITY, "+Inf"),
        (f64::NEG_INFINITY, "-Inf"),
        (f64::NAN, "NaN"),
    ] {
        assert_eq!(plain(&Value::Float(number)), expected);
    }
}

#[test]
fn lists_maps_and_nothing_print_as_go_prints_them() {
    assert_eq!(plain(&nested()), "[1 x <nil> map[a:1.5 k:<nil>]]");
    assert_eq!(
        formatted("%#v", &[nested()]),
        r#"[]interface {}{1, "x", interface {}(nil), map[string]interface {}{"a":1.5, "k":interface {}(nil)}}"#
    );
    assert_eq!(
        formatted("%d", &[nested()]),
        "[1 %!d(string=x) <nil> map[%!d(string=a):%!d(float64=1.5) %!d(string=k):<nil>]]"
    );
    assert_eq!(
        formatted("%v|%s|%T|%5v", &[Value::Nil, Value::Missing, Value::Nil, Value::Nil]),
        "<nil>|%!s(<nil>)|<nil>|<nil>"
    );
}

#[test]
fn integers_take_all_flags() {
    for (format, number, expected) in [
        ("%d", -7, "-7"),
        ("%+d", 7, "+7"),
        ("% d", 7, " 7"),
        ("%5d|", 7, "    7|"),
        ("%-5d|", 7, "7    |"),
        ("%05d", -7, "-0007"),
        ("%.3d", 7, "007"),
        ("%6.3d", 7, "   007"),
        ("%.0d", 0, ""),
        ("%b", 5, "101"),
        ("%#b", 5, "0b101"),
        ("%o", 8, "10"),
        ("%#o", 8, "010"),
        ("%O", 8, "0o10"),
        ("%x", 255, "ff"),
        ("%#X", 255, "0XFF"),
        ("%#08x", 255, "0x000000ff"),
        ("%c", 0x4e16, "世"),
        ("%c", -1, "\u{fffd}"),
        ("%q", 10, r"'\n'"),
        ("%+q", 0xe9, r"'\u00e9'"),
        ("%U", 0x1f600, "U+1F600"),
        ("%#U", 0x41, "U+0041 'A'"),
        ("%.6U", 0x41, "U+000041"),
        ("%f", 7, "%!f(int=7)"),
    ] {
        assert_eq!(formatted(format, &[Value::Int(number)]), expected, "{format}");
    }
}

#[test]
fn floats_take_all_flags() {
    for (format, number, expected) in [
        ("%f", 2.5, "2.500000"),
        ("%.0f", 0.5, "0"),
        ("%.0f", 1.5, "2"),
        ("%.0f", 2.5, "2"),
        ("%.2f", 12.345, "12.35"),
        ("%.1f", 0.25, "0.2"),
        ("%08.3f", -2.7219, "-002.722"),
        ("%+.1e", 12345.0, "+1.2e+04"),
        ("%E", 12345.0, "1.234500E+04"),
        ("%g", 1e21, "1e+21"),
        ("%.3g", 1234.5, "1.23e+03"),
        ("%#g", 1.0, "1.00000"),
        ("%#.3g", 1.0, "1.00"),
        ("%G", 1e-10, "1E-10"),
        ("%x", 1.0, "0x1p+00"),
        ("%.2x", 3.17, "0x1.96p+01"),
        ("%X", -0.5, "-0X1P-01"),
        ("%b", 1.0, "4503599627370496p-52"),
        ("%10.2f|", 2.7219, "      2.72|"),
        ("%-10.2f|", 2.7219, "2.72      |"),
        ("%d", 3.0, "%!d(float64=3)"),
    ] {
        assert_eq!(formatted(format, &[Value::Float(number)]), expected, "{format}");
    }
}

#[test]
fn text_is_cut_padded_quoted_and_spelled_in_hex() {
    for (format, text, expected) in [
        ("%s", "añb", "añb"),
        ("%5s|", "añ", "   añ|"),
        ("%-5s|", "añ", "añ   |"),
        ("%05s", "ab", "000ab"),
        ("%.2s", "añb", "añ"),
        ("%q", "a\"b", r#""a\"b""#),
        ("%+q", "é", r#""\u00e9""#),
        ("%#q", "a\"b", "`a\"b`"),
        ("%#q", "a`b", "\"a`b\""),
        ("%x", "añ", "61c3b1"),
        ("% X", "añ", "61 C3 B1"),
        ("%# x", "ab", "0x61 0x62"),
        ("%#x", "ab", "0x6162"),
        ("%.1x", "ab", "61"),
        ("%t", "ab", "%!t(string=ab)"),
        ("%6z", "ab", "%!z(string=    ab)"),
    ] {
        assert_eq!(formatted(format, &[Value::from(text)]), expected, "{format}");
    }
}

#[test]
fn what_is_wrong_with_a_format_is_said_in_the_text() {
    let operands = [Value::Int(1), Value::from("b")];
    for (format, expected) in [
        ("%d", "1%!(EXTRA string=b)"),
        ("%d %s %d", "1 b %!d(MISSING)"),
        ("%[2]s %[1]d", "b 1"),
        ("%[3]d", "%!d(BADINDEX)"),
        ("%[x]d", "%!d(BADINDEX)"),
        ("%*d", "%!d(string=b)"),
        ("%.*d", "%!d(string=b)"),
        ("%[2]*[1]d", "%!(BADWIDTH)1"),
        ("100%", "100%!(NOVERB)%!(EXTRA int=1, string=b)"),
        ("%%%d%s", "%1b"),
        ("%99999999d", "%!(NOVERB)%!(EXTRA int=1, string=b)"),
    ] {
        assert_eq!(formatted(format, &operands), expected, "{format}");
    }
}

#[test]
fn a_blank_stands_between_two_values_that_are_no_text() {
    let mut out = Output::new(100);
    join(
        &mut out,
        &[Value::Int(1), Value::Int(2), Value::from("a"), Value::Int(3), Value::from("b")],
    );
    assert_eq!(out.as_bytes(), b"1 2a3b");
    let mut out = Output::new(100);
    line(&mut out, &[Value::from("a"), Value::from("b")]);
    assert_eq!(out.as_bytes(), b"a b\n");
}

#[test]
fn a_full_output_drops_the_rest_and_says_so() {
    let mut out = Output::new(10);
    printf(&mut out, b"%1000000d%1000000d", &[Value::Int(1), Value::Int(2)]);
    assert!(out.is_over());
    assert!(out.as_bytes().len() <= 10);
}
