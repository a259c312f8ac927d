//! Fused MoE choices through the store: nothing that another tool needs back is lost, and no time is made up.
#![cfg(feature = "sqlite")]

mod store_words;

use std::path::Path;

use tgemm_db::choice::Choice;
use tgemm_db::format::{self, ReadOptions, fmoe, vllm_moe};
use tgemm_db::store::Store;
use tgemm_db::{Constraints, Environment};

const VLLM_NAME: &str = "E=8,N=14336,device_name=AMD_Instinct_MI325_OAM,dtype=fp8_w8a8.json";
const VLLM: &str = "{\n  \"triton_version\": \"3.5.0\",\n  \"2\": {\"num_warps\": 4, \"grf_mode\": \"256\"},\n  \"1\": {\"num_warps\": 8}\n}\n\n";

const FMOE: &str = "\
cu_num,token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1,block_m,ksplit,us1,kernelName1,err1,us2,kernelName2,err2,us,run_1stage,tflops,bw,_tag
256,64,4096,1536,8,2,ActivationType.Gelu,torch.bfloat16,torch.float4_e2m1fn_x2,torch.float4_e2m1fn_x2,QuantType.per_1x32,1,0,32,0,10.50,one,0.9%,2.0,Null,0.0%,12.50,1,5.26,2629.41,
256,128,4096,1536,8,2,ActivationType.Silu,torch.bfloat16,torch.float4_e2m1fn_x2,torch.float4_e2m1fn_x2,QuantType.per_1x32,1,0,32,0,10.5,two,1.9%,2.0,three,0.0%,12.5,0,5.2,2629,note
";

fn imported(name: &str, text: &str) -> Vec<Choice> {
    let options =
        ReadOptions { keep_origin: true, imported_at: "2026-01-01T00:00:00Z".into(), ..ReadOptions::default() };
    let read = format::parse_choices(Path::new(name), text.as_bytes(), &options).unwrap();
    assert_eq!(read.rejected, []);
    read.into_values().collect()
}

/// `choices`, all of one device, as a store gives them back.
fn stored(choices: &[Choice]) -> Vec<Choice> {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join("t.sqlite")).unwrap();
    let device = choices[0].device.clone();
    let environment =
        Environment { device: (*device).clone(), builds: Vec::new(), driver: String::new(), vars: Default::default() };
    let run = store.begin_run(&store_words::run_info()).unwrap();
    let environment = store.environment(&environment).unwrap();
    store.save_choices(run, environment, &Constraints::default(), choices).unwrap();
    store.choices().unwrap()
}

#[test]
fn a_vllm_configuration_comes_out_of_the_store_byte_by_byte() {
    let choices = imported(VLLM_NAME, VLLM);
    let back = stored(&choices);
    assert!(back.iter().all(|choice| choice.time_us.is_nan()), "no time was there, and none is made up");
    let (files, left_out) = vllm_moe::to_files(&back);
    assert_eq!((files.len(), left_out.len(), files[0].name.as_str()), (1, 0, VLLM_NAME));
    assert_eq!(files[0].text, VLLM);
}

#[test]
fn an_aiter_table_comes_out_of_the_store_byte_by_byte() {
    let choices = imported("tuned_fmoe.csv", FMOE);
    let back = stored(&choices);
    assert_eq!(back, choices);
    assert_eq!(fmoe::to_text(&back), (FMOE.to_owned(), vec![]));
}
