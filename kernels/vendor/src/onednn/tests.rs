use super::implementations::IMPLEMENTATIONS_MAX;
use super::*;

/// oneDNN, or why the test is skipped.
fn onednn() -> Option<OneDnn> {
    OneDnn::open().map_err(|absent| println!("skipped: {absent}")).ok()
}

fn descs(library: &OneDnn, weights: MemoryDesc, [m, n, k]: [i64; 3]) -> MatmulDescs {
    let plain = |rows, columns| MemoryDesc::strided(library, DataType::F32, [rows, columns], [columns, 1]).unwrap();
    MatmulDescs { src: plain(m, k), weights, bias: Some(plain(1, n)), dst: plain(m, n) }
}

/// `w[N,K]` as oneDNN's weights[K,N].
fn linear(library: &OneDnn, n: i64, k: i64) -> MemoryDesc {
    MemoryDesc::strided(library, DataType::F32, [k, n], [1, k]).unwrap()
}

#[test]
fn a_library_that_is_not_there_is_absent() {
    let candidates = [Candidate::File("/nonexistent/libdnnl.so.2".into()), Candidate::Soname("libdnnl.so.none".into())];
    // SAFETY: neither exists.
    let absent = unsafe { OneDnn::open_from(&candidates) }.unwrap_err();
    assert_eq!((absent.library, absent.tried.len()), ("onednn", 2));
    let text = absent.to_string();
    assert!(text.contains("/nonexistent/libdnnl.so.2") && text.contains("libdnnl.so.none"), "{text}");
}

#[test]
fn another_library_is_refused_with_the_symbol_it_lacks() {
    // SAFETY: libm's initialisers do nothing; no function of it is called, for it has none of these names.
    let absent = unsafe { OneDnn::open_from(&[Candidate::Soname("libm.so.6".into())]) }.unwrap_err();
    assert!(absent.tried[0].reason.ends_with("it has no symbol dnnl_version"), "{absent}");
    assert!(absent.tried[0].reason.starts_with('/'), "the file is named: {absent}");
}

#[test]
fn an_open_library_says_what_it_is() {
    let Some(library) = onednn() else { return };
    println!("{library:?} {}", library.version().hash);
    assert!(matches!(library.version().major, 2 | 3));
    assert!(library.file().is_file());
    let again = OneDnn::open().unwrap();
    assert_eq!((again.file(), again.version()), (library.file(), library.version()));
}

#[test]
fn sizes_and_layouts_are_those_described() {
    let Some(library) = onednn() else { return };
    let linear = linear(&library, 3, 5);
    assert_eq!(linear.bytes(), 60);
    assert_eq!(linear.layout().unwrap().to_string(), "f32 5x3 strides 1,5");
    assert!(linear.layout().unwrap().is_blocked());
    let same = MemoryDesc::strided(&library, DataType::F32, [5, 3], [1, 5]).unwrap();
    let other = MemoryDesc::strided(&library, DataType::F32, [5, 3], [3, 1]).unwrap();
    assert!(linear == same && linear != other);
    let any = MemoryDesc::any(&library, DataType::Bf16, [5, 3]).unwrap();
    assert!(!any.layout().unwrap().is_blocked());
}

/// The names of all implementations; each is made too where `make` says so.
fn names(library: &OneDnn, [m, n, k]: [i64; 3], make: bool) -> Vec<String> {
    let all = || descs(library, linear(library, n, k), [m, n, k]);
    let name = |desc: Result<PrimitiveDesc<'_>, CallError>| {
        let desc = desc.unwrap();
        let name = desc.name().unwrap();
        if make {
            assert_eq!(desc.make(all()).unwrap().name().unwrap(), name);
        }
        name
    };
    library.implementations(&all(), 1, |implementations| implementations.map(name).collect()).unwrap()
}

#[test]
fn implementations_end_and_the_last_is_the_reference() {
    let Some(library) = onednn() else { return };
    let names = names(&library, [2, 33, 65], false);
    assert!((1..IMPLEMENTATIONS_MAX).contains(&names.len()), "{names:?}");
    assert!(names.last().unwrap().starts_with("ref"), "{names:?}");
}

#[test]
fn a_walk_does_not_depend_on_what_was_made_before() {
    let Some(library) = onednn() else { return };
    let sizes = [5, 35, 67];
    let first = names(&library, sizes, false);
    for made in [true, true, false] {
        assert_eq!(names(&library, sizes, made), first);
    }
}

#[test]
fn what_no_implementation_takes_has_none() {
    let Some(library) = onednn() else { return };
    // Inner sizes that do not fit are refused by the description itself.
    let wrong = descs(&library, linear(&library, 33, 64), [2, 33, 65]);
    let refused = library.implementations(&wrong, 1, |implementations| implementations.count());
    assert!(refused.is_err_and(|error| error.is_refused()));
    // f16 weights under f32 activations: 2.x refuses the description, in 3.x nobody computes it.
    let mixed = MemoryDesc::strided(&library, DataType::F16, [65, 33], [1, 65]).unwrap();
    match library.implementations(&descs(&library, mixed, [2, 33, 65]), 1, |implementations| implementations.count()) {
        Ok(count) => assert_eq!(count, 0),
        Err(error) => assert!(error.is_refused(), "{error}"),
    }
}

#[test]
fn every_implementation_computes_the_product_from_two_threads_at_once() {
    let Some(library) = onednn() else { return };
    let (m, n, k) = (2usize, 33usize, 65usize);
    let value = |i: usize| ((i * 7919) % 13) as f32 - 6.0;
    let x: Vec<f32> = (0..m * k).map(value).collect();
    let w: Vec<f32> = (0..n * k).map(|i| value(i + 3)).collect();
    let bias: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
    // Small integers: every order of summation is exact.
    let want: Vec<f32> = (0..m * n)
        .map(|at| bias[at % n] + (0..k).map(|l| x[at / n * k + l] * w[at % n * k + l]).sum::<f32>())
        .collect();
    let size = |v: usize| i64::try_from(v).unwrap();
    let sizes = [size(m), size(n), size(k)];
    let all = || descs(&library, linear(&library, sizes[1], sizes[2]), sizes);
    let make = |desc: Result<PrimitiveDesc<'_>, CallError>| desc.unwrap().make(all()).unwrap();
    let made: Vec<_> =
        library.implementations(&all(), 2, |implementations| implementations.map(make).collect()).unwrap();
    for matmul in made {
        let name = matmul.name().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut dst = vec![f32::NAN; m * n];
                    // Room to align: scratch memory starts at a multiple of 64 bytes.
                    let mut scratch = vec![0u8; matmul.scratchpad_bytes() + 64];
                    let offset = scratch.as_ptr().align_offset(64);
                    let pointers = Pointers {
                        src: x.as_ptr().cast(),
                        weights: w.as_ptr().cast(),
                        bias: bias.as_ptr().cast(),
                        dst: dst.as_mut_ptr().cast(),
                        scratchpad: scratch[offset..].as_mut_ptr().cast(),
                    };
                    for _ in 0..3 {
                        // SAFETY: the vectors have the sizes described and live on.
                        unsafe { matmul.run(&pointers) }.unwrap();
                    }
                    assert_eq!(dst, want, "{name}");
                });
            }
        });
    }
}
