//! Looking up fused MoE layers allocates nothing, whichever rule answers.

mod counting;

use std::collections::BTreeMap;
use std::path::Path;

use counting::allocations;
use tgemm_db::format::{self, ReadOptions};
use tgemm_db::moe::MoeQuant;
use tgemm_db::problem::Activation;
use tgemm_db::{Constraints, DType, Environment, MoeSite, WeightForm};
use tgemm_lookup::{Database, HitKind};

const FMOE: &str = "\
gfx,cu_num,token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1,block_m,kernelName1,kernelName2,us
gfx942,304,64,4096,14336,8,2,ActivationType.Gelu,torch.bfloat16,torch.bfloat16,torch.bfloat16,QuantType.No,1,0,32,k,,2.0
";

#[test]
fn tiers_other_activations_nearest_ms_and_misses_allocate_nothing() {
    let read = |name: &str, text: &str| {
        let read = format::parse_choices(Path::new(name), text.as_bytes(), &ReadOptions::default()).unwrap();
        assert_eq!(read.rejected, []);
        read.into_values()
    };
    let name = "E=8,N=14336,device_name=AMD_Instinct_MI300X.json";
    let vllm = read(name, "{\"1\": {\"num_warps\": 4}, \"512\": {\"num_warps\": 8}}");
    let choices: Vec<_> = read("tuned_fmoe.csv", FMOE).chain(vllm).collect();
    let device = choices[0].device.clone();
    let here =
        Environment { device: (*device).clone(), builds: Vec::new(), driver: String::new(), vars: BTreeMap::new() };
    let database = Database::from_choices(choices, &here);
    let bf16 = Some(DType::Bf16);
    let site = MoeSite {
        topk: 2,
        model_dim: 4096,
        x: bf16,
        q_x: bf16,
        q_w: bf16,
        quant: MoeQuant::None,
        activation: Activation::Gelu,
        gated: true,
        ..MoeSite::unsaid(8, 14336)
    };
    let other = MoeSite { experts: 9, ..site };
    let mut constraints = Constraints::default();
    constraints.weight_forms.insert(WeightForm::Preshuffled);
    let before = allocations();
    let table = database.moe_site(&site);
    let hits = [
        table.at(64, &constraints),
        table.at(63, &constraints),
        database.moe_site(&MoeSite { activation: Activation::Silu, ..site }).at(64, &constraints),
        table.at(300, &constraints),
        database.lookup(&other.at(64).into(), &constraints),
    ];
    let after = allocations();
    use HitKind::{Default, Exact, Padded};
    assert_eq!(hits.map(|hit| hit.kind), [Exact, Padded, Padded, Padded, Default]);
    assert_eq!(hits.map(|hit| hit.tuned_m), [Some(64), Some(64), Some(64), Some(512), None]);
    assert_eq!(after - before, 0);
    assert!(before > 0, "the counter counts nothing");
}
