//! Headers and numbers, sound and not.

use super::*;

fn array(text: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(data);
    bytes
}

fn read(bytes: &[u8]) -> Result<(Header, Vec<f32>)> {
    let mut reader = bytes;
    let header = header(&mut reader, "states", bytes.len() as u64)?;
    let values = numbers(&mut reader, &header, "states", &mut Vec::new())?;
    Ok((header, values))
}

fn complaint(text: &str, data: &[u8]) -> String {
    read(&array(text, data)).unwrap_err().to_string()
}

#[test]
fn what_is_written_is_read_and_aligned_to_64_bytes() {
    let mut bytes = Vec::new();
    write_header(&mut bytes, Item::Float32, &[2, 3]).unwrap();
    assert_eq!(bytes.len() % 64, 0);
    write_numbers(&mut bytes, &[0.0, -1.5, 2.0, 3.0, f32::MIN_POSITIVE, 1e30]).unwrap();
    let (header, values) = read(&bytes).unwrap();
    assert_eq!((header.item, header.shape), (Item::Float32, vec![2, 3]));
    assert_eq!(values, [0.0, -1.5, 2.0, 3.0, f32::MIN_POSITIVE, 1e30]);
}

#[test]
fn keys_in_any_order_and_both_quotes_are_read() {
    let text = r#"{"shape":(1,) , 'fortran_order' :False,"descr":'<f4'}   "#;
    assert_eq!(read(&array(text, &1.5f32.to_le_bytes())).unwrap().1, [1.5]);
}

#[test]
fn a_header_outside_the_grammar_is_refused() {
    for text in [
        "",
        "{",
        "{}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '<f4', 'shape': (1,)}",
        "{'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False}",
    ] {
        let error = complaint(text, &[0; 4]);
        assert!(error.contains("`states` has a header that is not NumPy's"), "{text}: {error}");
    }
}

#[test]
fn each_claim_that_cannot_be_kept_has_its_own_message() {
    let of = |item: &str, shape: &str| {
        complaint(
            &format!("{{'descr': {item}, 'fortran_order': False, 'shape': {shape}, }}"),
            &[0; 8],
        )
    };
    assert!(of("'|O'", "(1,)").contains("Python objects"));
    assert!(of("'|O'", "(1,)").contains("numpy.savez(file, states=…, terminals=…)"));
    assert!(of("[('a', '<f4'), ('b', '<f4')]", "(1,)").contains("expected `<f4` or `<f8`"));
    assert!(of("'>f4'", "(2,)").contains("dtype `>f4`"));
    assert!(of("'<i4'", "(2,)").contains("expected `<f4` or `<f8`"));
    assert!(of("'<f4'", "(1,1,1,1,1,1,1,1,2)").contains("9 dimensions"));
    assert!(of("'<f4'", "(4294967296, 4294967296)").contains("more bytes than possible"));
    assert!(of("'<f4'", "(99999999999999999999999, 2)").contains("more bytes than possible"));
    assert!(of("'<f4'", "(1099511627776,)").contains("4398046511104 bytes, but holds 8"));
    assert!(of("'<f4'", "(1,)").contains("4 bytes, but holds 8"));
}

#[test]
fn of_each_array_it_is_said_at_once_which_dtypes_it_may_have() {
    let told = |key: &str, item: &str| {
        let text = format!("{{'descr': '{item}', 'fortran_order': False, 'shape': (4, 1), }}");
        let bytes = array(&text, &[0; 8]);
        let read = header(&mut &bytes[..], key, bytes.len() as u64);
        read.unwrap_err().to_string()
    };
    let floats = "dtype `<f2`, expected `<f4` or `<f8`; hint: save";
    for key in ["states", "observations", "to"] {
        let expected = format!("`{key}` has {floats} `{key}.astype('<f4')`");
        assert_eq!(told(key, "<f2"), expected);
    }
    // A keyword is no name in Python.
    assert_eq!(told("from", "<f2"), format!("`from` has {floats} `array.astype('<f4')`"));
    let actions = told("actions", "<f2");
    assert!(actions.contains("expected `<f4` or `<f8`, or whole numbers"), "{actions}");
    let flags = told("terminals", "<f2");
    assert!(flags.contains("expected one of `<f4`, `<f8`, `|b1`, `|u1`"), "{flags}");
}

#[test]
fn rounding_that_hides_what_a_column_changes_by_is_noted() {
    let noted = |offset: f64| {
        let rows = 3 * CHUNK / 8;
        let text = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 3), }}");
        let value = |at: usize| if at % 3 == 1 { offset + 0.05 * at as f64 } else { 0.5 };
        let data: Vec<u8> = (0..3 * rows).flat_map(|at| value(at).to_le_bytes()).collect();
        let (bytes, mut notes) = (array(&text, &data), Vec::new());
        let mut reader = &bytes[..];
        let header = header(&mut reader, "states", bytes.len() as u64).unwrap();
        numbers(&mut reader, &header, "states", &mut notes).unwrap();
        notes
    };
    assert_eq!(noted(0.0), Vec::<String>::new());
    let notes = noted(1e8);
    assert_eq!(notes.len(), 1);
    assert!(notes[0].starts_with("column 1 of `states` changes by 0.15 per row"), "{notes:?}");
}

#[test]
fn fortran_order_is_refused_with_a_hint() {
    let text = "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }";
    assert!(complaint(text, &[0; 8]).contains("numpy.ascontiguousarray(states)"));
    let one = "{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }";
    assert_eq!(read(&array(one, &[0; 8])).unwrap().1, [0.0, 0.0]);
}

#[test]
fn versions_and_header_lengths_are_bounded() {
    let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
    let mut bytes = array(text, &[0; 4]);
    bytes[6] = 4;
    assert!(read(&bytes).unwrap_err().to_string().contains("npy version `4.0`"));
    // Thirteen bytes that claim a header of four gigabytes.
    let error = read(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{").unwrap_err().to_string();
    assert!(error.contains("claims a header of 4294967295 bytes"), "{error}");
}

#[test]
fn wide_numbers_are_narrowed_only_where_they_stay_finite() {
    let text = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }";
    let data = |value: f64| [0.1f64.to_le_bytes(), value.to_le_bytes()].concat();
    assert_eq!(read(&array(text, &data(-2.5))).unwrap().1, [0.1, -2.5]);
    let error = complaint(text, &data(1e300));
    assert_eq!(
        error,
        "`states` row 0 column 1 is `1e300`, too large for 32 bits; hint: scale the column, or \
         mend the value"
    );
}

#[test]
fn many_numbers_of_either_width_are_read() {
    let values: Vec<f32> = (0..MANY + 1).map(|at| at as f32).collect();
    for count in [MANY - 1, MANY, MANY + 1] {
        let text = |item: &str| {
            format!("{{'descr': '{item}', 'fortran_order': False, 'shape': ({count},), }}")
        };
        let narrow: Vec<u8> = values[..count].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert!(read(&array(&text("<f4"), &narrow)).unwrap().1 == values[..count]);
        let wide: Vec<u8> =
            values[..count].iter().flat_map(|&x| f64::from(x).to_le_bytes()).collect();
        assert!(read(&array(&text("<f8"), &wide)).unwrap().1 == values[..count]);
    }
}

#[test]
fn arrays_of_no_numbers_and_of_eight_dimensions_are_read() {
    for (shape, numbers) in [("(0, 2)", 0), ("(1,1,1,1,1,1,1,2)", 2)] {
        let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        assert_eq!(read(&array(&text, &vec![0; 4 * numbers])).unwrap().1, vec![0.0; numbers]);
    }
}

#[cfg(any(feature = "hdf5", feature = "parquet"))]
#[test]
fn a_number_too_large_is_named_by_its_row_of_the_whole_array() {
    assert_eq!(narrow(&[0.5, 1.5], 7, 2, "states").unwrap(), [0.5, 1.5]);
    let error = narrow(&[0.0, 0.0, 0.0, 1e300], 7, 2, "states").unwrap_err().to_string();
    assert!(error.starts_with("`states` row 8 column 1 is `1e300`"), "{error}");
}

#[test]
fn flags_are_read_from_every_dtype_and_must_be_0_or_1() {
    for (item, width) in [("|b1", 1), ("|u1", 1), ("<i4", 4), ("<i8", 8)] {
        let text = format!("{{'descr': '{item}', 'fortran_order': False, 'shape': (3,), }}");
        let mut data = vec![0; 3 * width];
        data[width] = 1;
        let read = |data: &[u8]| {
            let bytes = array(&text, data);
            let mut reader = &bytes[..];
            let header = header(&mut reader, "terminals", bytes.len() as u64).unwrap();
            flags(&mut reader, &header, "terminals")
        };
        assert_eq!(read(&data).unwrap(), [false, true, false]);
        data[2 * width] = 2;
        let error = read(&data).unwrap_err().to_string();
        assert!(error.starts_with("`terminals` row 2 is `2`, expected 0 or 1"), "{error}");
    }
}

#[test]
fn without_a_checksum_every_truncation_and_flip_gives_an_error_or_as_many_numbers() {
    let mut bytes = Vec::new();
    write_header(&mut bytes, Item::Float32, &[3, 2]).unwrap();
    write_numbers(&mut bytes, &[1.0; 6]).unwrap();
    for length in 0..bytes.len() {
        assert!(read(&bytes[..length]).is_err(), "{length} bytes");
    }
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok((header, values)) = read(&bytes) {
            assert_eq!(header.shape.iter().product::<usize>(), values.len(), "bit {bit}");
            assert!(values.len() <= 6, "bit {bit}");
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    println!("figures: npy: {} cuts and flips, 0 panics", 9 * bytes.len());
}
