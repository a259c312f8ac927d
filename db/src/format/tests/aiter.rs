//! What each family's columns mean, and that it survives our own formats.

use std::path::Path;

use crate::choice::Choice;
use crate::format::aiter::{self, Family, Like};
use crate::format::{self, AssumedDevice, Content, Format, ReadOptions, tuned};
use crate::problem::Problem;
use crate::recording::Recorded;

fn with_origin() -> ReadOptions {
    ReadOptions { keep_origin: true, imported_at: "2026-09-01T00:00:00Z".into(), ..ReadOptions::default() }
}

/// The file's name tells the family, as AITER names its files.
fn read(family: Family, rows: &str, options: &ReadOptions) -> format::Read<Choice> {
    let text = format!("{}\n{rows}", family.tuned_columns().join(","));
    let name = format!("{}.csv", family.tuned_stem());
    format::parse_choices(Path::new(&name), text.as_bytes(), options).unwrap()
}

#[test]
fn every_family_means_what_its_tables_say() {
    let mi300x = ReadOptions {
        device: Some(AssumedDevice { arch: "gfx942".into(), compute_units: 304 }),
        ..ReadOptions::default()
    };
    let default = ReadOptions::default();
    let bmm = "batch=2:4096:4194304:1024";
    #[rustfmt::skip]
    let cases: &[(Family, &str, &ReadOptions, &str, &str)] = &[
        (Family::Bf16, "gfx950,256,64,256,5120,False,torch.bfloat16,torch.float32,False,False,asm,5,13,7.9,k,0.0,21,417",
            &default, "gemm,m=64,n=256,k=5120,x=bf16,w=bf16,out=f32,compute=f32", "asm k split_k=13"),
        (Family::A8w8, "gfx942,80,1,1280,8192,torch.int8,34,2,20.5,a8w8_rowwise_x,1.02,510.5,0.0",
            &default, "gemm,m=1,n=1280,k=8192,x=i8,w=i8,out=bf16,compute=i32,scale=token_channel", "ck a8w8_rowwise_x split_k=4"),
        (Family::A8w8Bpreshuffle, "gfx950,256,32,2560,8192,torch.float8_e4m3fn,ck,10,1,11.9,x,112,1789,0.0",
            &default, "gemm,m=32,n=2560,k=8192,x=f8e4m3fn,w=f8e4m3fn,out=bf16,compute=f32,scale=token_channel,preshuffled=1",
            "ck x preshuffled split_k=2"),
        (Family::A8w8Bpreshuffle, "gfx942,80,128,128,5120,torch.int4,asm,0,8,7.3,x,22,183,0.182",
            &default, "gemm,m=128,n=128,k=5120,x=f8e4m3fnuz,w=i4,out=bf16,compute=f32,scale=token_channel,preshuffled=1",
            "asm x preshuffled split_k=8"),
        (Family::A8w8Blockscale, "gfx942,304,1,2048,3072,cktile,8,3,4.8,x,2.61,1304,0.0",
            &default, "gemm,m=1,n=2048,k=3072,x=f8e4m3fnuz,w=f8e4m3fnuz,out=bf16,compute=f32,scale=block128", "cktile x split_k=8"),
        (Family::A8w8BlockscaleBpreshuffle, "gfx950,256,16,512,7168,asm,6,7,7.9,x,14,476,0.0029",
            &default, "gemm,m=16,n=512,k=7168,x=f8e4m3fn,w=f8e4m3fn,out=bf16,compute=f32,scale=block128,preshuffled=1",
            "asm x preshuffled split_k=7"),
        (Family::A4w4Blockscale, "gfx950,256,1,512,4096,21,2,5.4,_ZN5aiter41f4gemmE,0.78,194,0.0",
            &default, "gemm,m=1,n=512,k=4096,x=f4e2m1x2,w=f4e2m1x2,out=bf16,compute=f32,scale=mx,scale_dtype=ue8m0,preshuffled=1",
            "asm _ZN5aiter41f4gemmE preshuffled split_k=4"),
        (Family::BatchedA8w8, "gfx942,304,16,32,1280,8192,28,0,68.9,a8w8_batched_x,155,5004,0.0",
            &default, "gemm,m=32,n=1280,k=8192,x=i8,w=i8,out=bf16,compute=i32,scale=token_channel,batch=16:262144:10485760:40960",
            "ck a8w8_batched_x"),
        (Family::BatchedBf16, "gfx942,304,16,32,1280,8192,28,0,68.9,bf16_batched_x,155,5004,0.0",
            &default, "gemm,m=32,n=1280,k=8192,x=bf16,w=bf16,out=bf16,compute=f32,batch=16:262144:10485760:40960", "ck bf16_batched_x"),
        (Family::BatchedMxscale, "gfx950,2,1,1024,4096,opus,311,1,7.8,opus_x,2.2,1076,0.0015",
            &default, "gemm,m=1,n=1024,k=4096,x=f8e4m3fn,w=f8e4m3fn,out=bf16,compute=f32,scale=mx,scale_dtype=ue8m0,BMM", "opus opus_x split_k=1"),
        (Family::AsmA8w8, "192,128,5120,True,torch.bfloat16,8,18.90",
            &mi300x, "gemm,m=192,n=128,k=5120,x=i8,w=i8,out=bf16,compute=i32,bias=bf16,scale=token_channel,preshuffled=1",
            "asm preshuffled split_k=8"),
    ];
    for (family, row, options, problem, solution) in cases {
        let options = ReadOptions { keep_origin: true, ..(*options).clone() };
        let read = read(*family, &format!("{row}\n"), &options);
        assert_eq!((read.format, &read.rejected), (Format::AiterTuned(*family), &vec![]), "{family}");
        let choices: Vec<Choice> = read.into_values().collect();
        let want: Problem = problem.replace("BMM", bmm).parse().unwrap();
        assert_eq!(choices[0].problem, want, "{family}");
        assert_eq!(choices[0].solution.to_string(), *solution, "{family}");
        assert_eq!(aiter::family_of(&choices[0]), Some(*family));
        let text = aiter::to_text_like(&choices, Like::Origin).text;
        assert_eq!(text, format!("{}\n{row}\n", family.tuned_columns().join(",")));
        // Without its origin the row says the same in our spelling.
        let bare = Choice { origin: None, ..choices[0].clone() };
        let written = aiter::to_text_like([&bare], Like::Family(*family));
        assert_eq!(written.left_out, []);
        let name = format!("{}.csv", family.tuned_stem());
        let again = format::parse_choices(
            Path::new(&name),
            written.text.as_bytes(),
            &ReadOptions { keep_origin: false, ..options },
        );
        assert_eq!(again.unwrap().into_values().collect::<Vec<_>>(), [bare]);
    }
}

#[test]
fn old_headers_are_read_with_what_the_caller_knows() {
    let text = "M,N,K,kernelId,splitK,us,kernelName\n1,1280,8192,34,0,20.5,x\n";
    let read =
        |options: &ReadOptions| format::parse_choices(Path::new("a8w8_tuned_gemm.csv"), text.as_bytes(), options);
    let device = Some(AssumedDevice { arch: "gfx942".into(), compute_units: 304 });
    let half = ReadOptions { device: device.clone(), ..ReadOptions::default() };
    assert_eq!(read(&half).unwrap().rejected[0].reason, "no q_dtype_w column: say which type the weights have");
    let whole = ReadOptions { weight_dtype: Some(crate::DType::I8), ..half };
    let rows: Vec<Choice> = read(&whole).unwrap().into_values().collect();
    assert!(rows[0].problem.to_string().contains("x=i8,w=i8,out=bf16"));
    // Before 2025-07 `kernelId` stood before `splitK` already, and `cu_num` did not stand at all.
    assert_eq!(rows[0].device.to_string(), "gfx942/304");
}

#[test]
fn what_is_assumed_is_said() {
    let mx =
        read(Family::BatchedMxscale, "gfx950,2,1,1024,4096,opus,311,1,7.8,opus_x,2.2,1076,0.0015\n", &with_origin());
    assert_eq!(mx.warnings.len(), 1, "{:?}", mx.warnings);
    assert!(mx.warnings[0].to_string().contains("0 compute units"));
    let parse =
        |text: &str| format::parse(Path::new("a8w8_blockscale_untuned_gemm.csv"), text.as_bytes(), &with_origin());
    let Ok(Content::Problems(untuned)) = parse("M,N,K\n1,2,3\n") else { panic!("problems") };
    assert!(untuned.warnings[0].what.contains("e4m3fn is taken"));
}

#[test]
fn provenance_and_spelling_survive_our_own_table() {
    let rows = "gfx942,80,1,1280,8192,torch.int8,34,2,20.50,a|b#c\\d,1.02,510.5,0.0\r\n\
                gfx942,80,2,1280,8192,torch.int8,34,0,21,k,1.02,510.5,0.0";
    let text = format!("{}\r\n{rows}", Family::A8w8.tuned_columns().join(","));
    let read = format::parse_choices(Path::new("dir/a8w8_tuned_gemm.csv"), text.as_bytes(), &with_origin()).unwrap();
    let choices: Vec<Choice> = read.into_values().collect();
    let origin = choices[0].origin.as_ref().unwrap();
    assert_eq!(
        (origin.source.file.as_str(), origin.line, origin.source.format.as_str()),
        ("dir/a8w8_tuned_gemm.csv", 2, "aiter_a8w8_tuned")
    );
    assert_eq!(origin.source.file_hash, blake3::hash(text.as_bytes()).to_hex().as_str());

    let ours = tuned::to_text(&choices);
    let later = ReadOptions { imported_at: "2027-01-01T00:00:00Z".into(), ..with_origin() };
    let back = format::parse_choices(Path::new("tuned.csv"), ours.as_bytes(), &later).unwrap();
    assert_eq!(back.rejected, []);
    let back: Vec<Choice> = back.into_values().collect();
    assert_eq!(back, choices);
    assert_eq!(aiter::to_text_like(&back, Like::Origin).text, text);
    // A lookup does not carry what it does not look at.
    let fast = format::parse_choices(Path::new("tuned.csv"), ours.as_bytes(), &ReadOptions::default()).unwrap();
    assert!(fast.into_values().all(|choice| choice.origin.is_none()));
}

#[test]
fn rows_that_a_sweep_made_come_from_the_table_that_brings_them() {
    let row = "gfx942,80,1,1280,8192,torch.int8,34,2,20.5,k,1.02,510.5,0.0\n";
    let swept: Vec<Choice> = read(Family::A8w8, row, &ReadOptions::default()).into_values().collect();
    let text = tuned::to_text(&swept);
    let rows = format::parse_choices(Path::new("theirs.csv"), text.as_bytes(), &with_origin()).unwrap();
    let origin = rows.into_values().next().unwrap().origin.unwrap();
    assert_eq!((origin.source.file.as_str(), origin.line, origin.source.format.as_str()), ("theirs.csv", 2, "tuned"));
    // Tables of before the columns of origins were added.
    let cut = |line: &str| line.rsplitn(7, ',').last().unwrap_or_default().to_owned();
    let old: Vec<String> = text.lines().map(cut).collect();
    assert!(old[0].ends_with(",tuned_at"), "{}", old[0]);
    let read = format::parse_choices(Path::new("old.csv"), old.join("\n").as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!((read.format, read.rejected.len()), (Format::Tuned, 0));
    assert_eq!(read.into_values().collect::<Vec<_>>(), swept);
}

#[test]
fn what_a_family_cannot_say_is_left_out_with_its_reason() {
    let row = "gfx942,80,1,1280,8192,torch.int8,34,2,20.5,k,1.02,510.5,0.0\n";
    let good = read(Family::A8w8, row, &with_origin()).into_values().next().unwrap();
    let mut odd = good.clone();
    odd.solution.params = crate::Params::new().with("split_k", 3);
    let mut asm = good.clone();
    (asm.origin, asm.solution.build) = (None, crate::Build::unknown("asm").into());
    let mut theirs = good.clone();
    theirs.solution.build = crate::Build::unknown("asm").into();
    let reasons = |like: Like| {
        let written = aiter::to_text_like([&odd, &asm, &theirs], like);
        written.left_out.into_iter().map(|row| row.reason).collect::<Vec<_>>()
    };
    assert_eq!(
        reasons(Like::Family(Family::A8w8)),
        [
            "AITER's splitK cannot say 3 parts",
            "AITER cannot run library asm",
            "AITER's a8w8 table has no column for library asm"
        ]
    );
    let shuffled = reasons(Like::Family(Family::A8w8Bpreshuffle));
    assert_eq!(shuffled, ["AITER's columns cannot say all of this problem"; 3]);
    let bare = Choice { origin: None, ..good };
    let nowhere = aiter::to_text_like([&bare], Like::Origin);
    assert_eq!(nowhere.text, "");
    assert_eq!(nowhere.left_out[0].reason, "it was not imported from an AITER table: say which family to write");
}

#[test]
fn problems_come_out_as_their_file_had_them() {
    let text = "\u{feff}\nM,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle\n\n16, 64 ,128,FALSE,torch.bfloat16,torch.bfloat16,0,False\r\n \
                \n32,64,128,True,torch.bfloat16,torch.float32,False,False\nM,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle\n\
                64,64,128,False,torch.bfloat16,torch.bfloat16,False,False";
    let problems = |text: &str, options: &ReadOptions| match format::parse(
        Path::new("bf16_untuned_gemm.csv"),
        text.as_bytes(),
        options,
    )
    .unwrap()
    {
        Content::Problems(read) => read,
        Content::Choices(_) => panic!("choices"),
    };
    let said = |rows: &[Recorded]| aiter::untuned_text_like_origin(rows);
    for text in [text.to_owned(), format!("{text}\n\n \n")] {
        let rows: Vec<Recorded> = problems(&text, &with_origin()).into_values().collect();
        assert_eq!((rows.len(), said(&rows)), (3, (text.clone(), vec![])));
    }
    let rows: Vec<Recorded> = problems(text, &with_origin()).into_values().collect();
    // A row that changed is written anew, one that is alone keeps its header, and the last of the file gets a line end.
    let mut changed = rows[0].clone();
    changed.problem = rows[1].problem;
    let head = text.split_inclusive('\n').take(2).collect::<String>();
    let bf16 = "64,128,True,torch.bfloat16,torch.float32,False,False";
    assert_eq!(said(&[changed.clone()]), (format!("{head}32,{bf16}\n"), vec![]));
    let (both, _) = said(&[rows[2].clone(), changed]);
    assert!(both.ends_with(&format!("False,False\n32,{bf16}\n")), "{both}");
    // A row that is refused takes nothing else with it.
    let torn = text.replace("64,128,True", "64,0,True");
    let read = problems(&torn, &with_origin());
    assert_eq!((read.rows.len(), read.rejected.len()), (2, 1));
    let rows: Vec<Recorded> = read.into_values().collect();
    let want = torn.replace(" \n32,64,0,True,torch.bfloat16,torch.float32,False,False\n", "");
    assert_eq!(said(&rows), (want, vec![]));
    let bare: Vec<Recorded> = problems(text, &ReadOptions::default()).into_values().collect();
    assert!(bare.iter().all(|row| row.origin.is_none()));
    assert_eq!(said(&bare).1.len(), 3);
}
