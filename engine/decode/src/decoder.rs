//! Prefill and decode steps of a batch of sequences.

use tgemm_db::{DType, Via};
use tgemm_recorder::Recorder;

use crate::Error;
use crate::attention::{Cache, Rope, Span, attend};
use crate::config::ModelConfig;
use crate::math::{rms_norm, swiglu};
use crate::model::{Linear, Model};
use crate::product::Product;
use crate::tensor::Tensor;

/// The most sequences of a batch.
pub const BATCH_MAX: u32 = 1024;
/// The most positions of a sequence.
pub const POSITIONS_MAX: u32 = 1 << 17;
/// The most f32 values of the KV cache: 8 GiB.
const CACHE_VALUES_MAX: u64 = 2 << 30;

/// A batch of sequences under way.
pub struct Decoder<'a> {
    model: &'a Model,
    linears: Linears<'a>,
    batch: usize,
    positions_max: usize,
    /// Tokens that every sequence holds so far.
    position: usize,
    cache: Cache,
    rope: Rope,
    scratch: Scratch,
}

/// The way to every product: noted by the recorder if there is one, then computed.
struct Linears<'a> {
    product: Box<dyn Product + 'a>,
    recorder: Option<&'a Recorder>,
}

impl Linears<'_> {
    fn run(&mut self, linear: &Linear, m: usize, x: &Tensor, out: &mut Tensor) -> Result<(), Error> {
        let m = u32::try_from(m).map_err(|_| Error::Request(format!("{m} tokens in one pass are too many")))?;
        if let Some(recorder) = self.recorder {
            recorder.record(&linear.site.at(m).into(), Via::Linear, false);
        }
        out.resize(m as usize * linear.site.n as usize);
        self.product.multiply(linear, m, x, out)
    }
}

/// Memory between layers, kept from pass to pass.
struct Scratch {
    /// Residual stream, f32, a row a token.
    hidden: Vec<f32>,
    /// What a linear layer takes, and what it gives.
    x: Tensor,
    out: Tensor,
    wide_in: Vec<f32>,
    wide_out: Vec<f32>,
    logits: Vec<f32>,
}

/// Can a decoder of `config` hold `batch` sequences of `positions` tokens?
fn check_request(config: &ModelConfig, batch: u32, positions: u32) -> Result<(), Error> {
    for (what, value, max) in [("batch", batch, BATCH_MAX), ("tokens of a sequence", positions, POSITIONS_MAX)] {
        if value == 0 || value > max {
            return Err(Error::Request(format!("{what}: {value} is not between 1 and {max}")));
        }
    }
    let position_values = 2 * u64::from(config.layers) * u64::from(config.kv_heads * config.head_dim);
    if position_values * u64::from(batch) * u64::from(positions) > CACHE_VALUES_MAX {
        let what = format!("a KV cache of {batch} sequences of {positions} tokens is over 8 GiB");
        return Err(Error::Request(what));
    }
    Ok(())
}

/// As [`check_request`] for a run of `prompt` and `steps` tokens; gives the tokens of a sequence.
pub(crate) fn check_run(config: &ModelConfig, batch: u32, prompt: u32, steps: u32) -> Result<u32, Error> {
    if prompt == 0 {
        return Err(Error::Request("prompt: 0 tokens; it must be at least 1".into()));
    }
    let positions = prompt.saturating_add(steps);
    check_request(config, batch, positions)?;
    Ok(positions)
}

impl<'a> Decoder<'a> {
    /// A decoder of `batch` empty sequences of at most `positions_max` tokens each.
    pub fn new(
        model: &'a Model,
        product: Box<dyn Product + 'a>,
        batch: u32,
        positions_max: u32,
    ) -> Result<Decoder<'a>, Error> {
        let config = &model.config;
        check_request(config, batch, positions_max)?;
        let activations = product.activations(model.dtype);
        let (batch, positions_max) = (batch as usize, positions_max as usize);
        Ok(Decoder {
            model,
            linears: Linears { product, recorder: None },
            batch,
            positions_max,
            position: 0,
            cache: Cache::new(config, batch, positions_max),
            rope: Rope::new(config, positions_max),
            scratch: Scratch::new(activations)?,
        })
    }

    /// Notes every linear layer's problem in `recorder` from now on.
    pub fn record_into(&mut self, recorder: Option<&'a Recorder>) {
        self.linears.recorder = recorder;
    }

    /// Number of sequences.
    pub fn batch(&self) -> u32 {
        self.batch as u32
    }

    /// Forgets all sequences.
    pub fn clear(&mut self) {
        self.position = 0;
    }

    /// Runs one more token of each sequence: M = batch. Gives the logits, `batch` rows of `vocab`.
    pub fn step(&mut self, tokens: &[u32]) -> Result<&[f32], Error> {
        self.forward(tokens, 1)
    }

    /// Runs `tokens.len() / batch` tokens of each sequence at once, sequence after sequence. Gives the logits after the
    /// last token of each, `batch` rows of `vocab`.
    pub fn prefill(&mut self, tokens: &[u32]) -> Result<&[f32], Error> {
        self.forward(tokens, tokens.len() / self.batch)
    }

    fn forward(&mut self, tokens: &[u32], steps: usize) -> Result<&[f32], Error> {
        let vocab = self.model.config.vocab;
        if steps == 0 || tokens.len() != self.batch * steps {
            let what = format!("{} tokens do not make {} sequences of one length", tokens.len(), self.batch);
            return Err(Error::Request(what));
        }
        if let Some(token) = tokens.iter().find(|token| **token >= vocab) {
            return Err(Error::Request(format!("token {token} is not below the vocabulary's {vocab}")));
        }
        if self.position + steps > self.positions_max {
            return Err(Error::Request(format!("sequences end at {} tokens", self.positions_max)));
        }
        let hidden = self.model.config.hidden as usize;
        self.scratch.hidden.resize(tokens.len() * hidden, 0.0);
        for (row, &token) in self.scratch.hidden.chunks_mut(hidden).zip(tokens) {
            self.model.embed(token, row);
        }
        let span = Span { batch: self.batch, first: self.position, steps };
        for index in 0..self.model.layers.len() {
            self.attention(index, span)?;
            self.gated(index)?;
        }
        self.position += steps;
        self.head(steps)
    }

    /// Adds the attention of layer `index` to the residual stream.
    fn attention(&mut self, index: usize, span: Span) -> Result<(), Error> {
        let Decoder { model, linears, cache, rope, scratch, .. } = self;
        let (config, layer) = (&model.config, &model.layers[index]);
        let tokens = span.batch * span.steps;
        scratch.norm(&layer.attention_norm, config.norm_eps);
        linears.run(&model.linears()[layer.qkv], tokens, &scratch.x, &mut scratch.out)?;
        scratch.widen_out();
        scratch.wide_in.resize(tokens * config.attention_width() as usize, 0.0);
        attend(config, (layer, index), rope, cache, span, &mut scratch.wide_out, &mut scratch.wide_in);
        scratch.narrow_in();
        linears.run(&model.linears()[layer.o], tokens, &scratch.x, &mut scratch.out)?;
        scratch.add_out();
        Ok(())
    }

    /// Adds the gated layer of layer `index` to the residual stream.
    fn gated(&mut self, index: usize) -> Result<(), Error> {
        let Decoder { model, linears, scratch, .. } = self;
        let (config, layer) = (&model.config, &model.layers[index]);
        let tokens = scratch.hidden.len() / config.hidden as usize;
        scratch.norm(&layer.mlp_norm, config.norm_eps);
        linears.run(&model.linears()[layer.gate_up], tokens, &scratch.x, &mut scratch.out)?;
        scratch.widen_out();
        let width = config.intermediate as usize;
        scratch.wide_in.resize(tokens * width, 0.0);
        for (row, out) in scratch.wide_out.chunks(2 * width).zip(scratch.wide_in.chunks_mut(width)) {
            swiglu(row, out);
        }
        scratch.narrow_in();
        linears.run(&model.linears()[layer.down], tokens, &scratch.x, &mut scratch.out)?;
        scratch.add_out();
        Ok(())
    }

    /// The logits of the last of `steps` tokens of each sequence: as servers do, the head runs for those only.
    fn head(&mut self, steps: usize) -> Result<&[f32], Error> {
        let Decoder { model, linears, scratch, .. } = self;
        let hidden = model.config.hidden as usize;
        for sequence in 0..self.batch {
            let last = (sequence * steps + steps - 1) * hidden;
            scratch.hidden.copy_within(last..last + hidden, sequence * hidden);
        }
        scratch.hidden.truncate(self.batch * hidden);
        scratch.norm(&model.final_norm, model.config.norm_eps);
        linears.run(&model.linears()[model.head], self.batch, &scratch.x, &mut scratch.out)?;
        scratch.logits.resize(scratch.out.elements(), 0.0);
        scratch.out.widen(0, &mut scratch.logits);
        Ok(&scratch.logits)
    }
}

impl Scratch {
    fn new(activations: DType) -> Result<Scratch, Error> {
        let (x, out) = (Tensor::zeros(activations, 0)?, Tensor::zeros(activations, 0)?);
        Ok(Scratch { hidden: vec![], x, out, wide_in: vec![], wide_out: vec![], logits: vec![] })
    }

    /// The residual stream, normalised, becomes the next layer's input.
    fn norm(&mut self, factors: &[f32], eps: f32) {
        self.wide_in.resize(self.hidden.len(), 0.0);
        let width = factors.len();
        for (row, out) in self.hidden.chunks(width).zip(self.wide_in.chunks_mut(width)) {
            rms_norm(row, factors, eps, out);
        }
        self.narrow_in();
    }

    fn narrow_in(&mut self) {
        self.x.resize(self.wide_in.len());
        self.x.narrow(0, &self.wide_in);
    }

    fn widen_out(&mut self) {
        self.wide_out.resize(self.out.elements(), 0.0);
        self.out.widen(0, &mut self.wide_out);
    }

    /// The last layer's output joins the residual stream.
    fn add_out(&mut self) {
        self.widen_out();
        self.hidden.iter_mut().zip(&self.wide_out).for_each(|(hidden, out)| *hidden += out);
    }
}
