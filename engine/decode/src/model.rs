//! The weights of a decoder, drawn from a seed.

use rayon::prelude::*;
use tgemm_db::{DType, Site};

use crate::Error;
use crate::config::ModelConfig;
use crate::random::Random;
use crate::tensor::{Tensor, narrow};

/// One linear layer: `out[M,N] = x[M,K] · w[N,K]ᵀ + bias[N]`.
pub struct Linear {
    /// Its place in [`Model::linears`].
    pub id: usize,
    /// What it is: `qkv`, `o`, `gate_up`, `down`, `lm_head`.
    pub name: &'static str,
    /// Its problem less M.
    pub site: Site,
    /// N x K elements.
    pub weights: Tensor,
    /// N elements, where it has a bias.
    pub bias: Option<Tensor>,
}

/// The linear layers and norms of one decoder layer.
pub(crate) struct Layer {
    pub qkv: usize,
    pub o: usize,
    pub gate_up: usize,
    pub down: usize,
    pub attention_norm: Vec<f32>,
    pub mlp_norm: Vec<f32>,
    /// Factors of q and k, where they are normalised.
    pub qk_norm: Option<(Vec<f32>, Vec<f32>)>,
}

/// A decoder's weights.
pub struct Model {
    /// Its sizes.
    pub config: ModelConfig,
    /// Its element type.
    pub dtype: DType,
    linears: Vec<Linear>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) head: usize,
    pub(crate) final_norm: Vec<f32>,
    /// vocab x hidden; `None` where the head's weights serve.
    embedding: Option<Tensor>,
}

impl Model {
    /// A model of these sizes with weights drawn from `seed`: each linear layer keeps the scale of its input, so that
    /// activations stay near 1 through any number of layers.
    pub fn random(config: &ModelConfig, dtype: DType, seed: u64) -> Result<Model, Error> {
        let mut draw = Draw { dtype, seed, stream: 0, linears: Vec::new() };
        let mut layers = Vec::new();
        for _ in 0..config.layers {
            layers.push(draw.layer(config)?);
        }
        let head = draw.linear("lm_head", config.vocab, config.hidden, false)?;
        let final_norm = draw.norm(config.hidden);
        let embedding = match config.tied {
            true => None,
            false => Some(draw.matrix(config.vocab, config.hidden, 1.0)?),
        };
        let config = config.clone();
        Ok(Model { config, dtype, linears: draw.linears, layers, head, final_norm, embedding })
    }

    /// Every linear layer, in the order of a forward pass.
    pub fn linears(&self) -> &[Linear] {
        &self.linears
    }

    /// Writes the embedding of `token` (hidden elements).
    pub(crate) fn embed(&self, token: u32, hidden: &mut [f32]) {
        let table = self.embedding.as_ref().unwrap_or(&self.linears[self.head].weights);
        table.widen(token as usize * hidden.len(), hidden);
    }
}

/// Draws one matrix after another, each from a stream of its own.
struct Draw {
    dtype: DType,
    seed: u64,
    stream: u64,
    linears: Vec<Linear>,
}

impl Draw {
    fn layer(&mut self, config: &ModelConfig) -> Result<Layer, Error> {
        let shapes = config.layer_shapes();
        let mut ids = [0; 4];
        for (id, (name, n, k)) in ids.iter_mut().zip(shapes) {
            *id = self.linear(name, n, k, name == "qkv" && config.qkv_bias)?;
        }
        let [qkv, o, gate_up, down] = ids;
        let qk_norm = config.qk_norm.then(|| (self.norm(config.head_dim), self.norm(config.head_dim)));
        let (attention_norm, mlp_norm) = (self.norm(config.hidden), self.norm(config.hidden));
        Ok(Layer { qkv, o, gate_up, down, attention_norm, mlp_norm, qk_norm })
    }

    fn linear(&mut self, name: &'static str, n: u32, k: u32, bias: bool) -> Result<usize, Error> {
        let id = self.linears.len();
        let site = Site::linear(n, k, self.dtype);
        let weights = self.matrix(n, k, (k as f32).sqrt().recip())?;
        let (site, bias) = match bias {
            true => (site.with_bias(self.dtype), Some(self.matrix(1, n, 0.5)?)),
            false => (site, None),
        };
        self.linears.push(Linear { id, name, site, weights, bias });
        Ok(id)
    }

    fn next_stream(&mut self) -> u64 {
        self.stream += 1;
        self.stream
    }

    /// `rows` x `columns` values of mean zero.
    fn matrix(&mut self, rows: u32, columns: u32, deviation: f32) -> Result<Tensor, Error> {
        let (dtype, seed, stream) = (self.dtype, self.seed, self.next_stream());
        let columns = columns as usize;
        let mut tensor = Tensor::zeros(dtype, rows as usize * columns)?;
        let row_bytes = dtype.bytes(columns as u64) as usize;
        // A stream a row: the values do not depend on how rows are spread over threads.
        let fill = |wide: &mut Vec<f32>, (row, bytes): (usize, &mut [u8])| {
            wide.resize(columns, 0.0);
            Random::new(seed, stream << 32 | row as u64).fill(deviation, wide);
            narrow(dtype, bytes, wide);
        };
        tensor.bytes_mut().par_chunks_mut(row_bytes).enumerate().for_each_init(Vec::new, fill);
        Ok(tensor)
    }

    /// Factors of a norm: around 1, so that leaving them out shows.
    fn norm(&mut self, width: u32) -> Vec<f32> {
        let mut values = vec![0.0; width as usize];
        Random::new(self.seed, self.next_stream() << 32).fill(0.1, &mut values);
        values.iter_mut().for_each(|value| *value += 1.0);
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_every_weight_and_layers_differ() {
        let mut config = ModelConfig::from_json(tgemm_configs::model("tiny").unwrap()).unwrap();
        (config.layers, config.vocab, config.qkv_bias) = (2, 64, true);
        let model = |seed| Model::random(&config, DType::F32, seed).unwrap();
        let (a, b, c) = (model(1), model(1), model(2));
        assert_eq!(a.linears().len(), 2 * 4 + 1);
        for id in 0..a.linears().len() {
            assert_eq!(a.linears()[id].weights.bytes(), b.linears()[id].weights.bytes());
            assert_ne!(a.linears()[id].weights.bytes(), c.linears()[id].weights.bytes());
        }
        assert_ne!(a.linears()[0].weights.bytes(), a.linears()[4].weights.bytes());
        let with_bias: Vec<bool> = a.linears().iter().map(|linear| linear.bias.is_some()).collect();
        assert_eq!(with_bias, [true, false, false, false, true, false, false, false, false]);
        assert_eq!(a.linears()[0].site, Site::linear(1280, 768, DType::F32).with_bias(DType::F32));
    }
}
