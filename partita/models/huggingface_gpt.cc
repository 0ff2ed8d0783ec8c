// Reads configurations of GPT-2, GPT-NeoX, OPT and BERT.
#include "partita/models/huggingface_fields.h"

namespace partita::huggingface {

Model read_gpt2(Reading& in) {
  Fields& f = in.f;
  const Options& options = in.options;
  auto name = [&](const char* own, const char* common) { return f.has(common) ? common : own; };  // either is taken
  const CommonFields names{name("n_embd", "hidden_size"), name("n_layer", "num_hidden_layers"),
                           name("n_head", "num_attention_heads"), name("n_positions", "max_position_embeddings")};
  Gpt2 m;
  read_common(m, in, names, {768, 12, 12, 1024});
  m.vocabulary = f.integer("vocab_size", 50257);
  m.positions = f.integer(names.positions, 1024);
  m.inner = f.integer("n_inner", 4 * m.hidden);
  m.eps = f.positive("layer_norm_epsilon", 1e-5);
  m.activation = f.activation("activation_function", "gelu_new");
  m.tied = f.flag("tie_word_embeddings", true);
  m.scaled = f.flag("scale_attn_weights", true);
  m.scaled_by_layer = f.flag("scale_attn_by_inverse_layer_idx", false);
  m.embedding_dropout = f.probability("embd_pdrop", 0.1);
  m.residual_dropout = f.probability("resid_pdrop", 0.1);
  m.attention_dropout = f.probability("attn_pdrop", 0.1);
  if (options.dropout) m.embedding_dropout = m.residual_dropout = m.attention_dropout = *options.dropout;
  f.only("add_cross_attention", false, "attention to another model's states");
  if (m.hidden % m.heads) f.problem("{}={} is not a multiple of {}={}", names.hidden, m.hidden, names.heads, m.heads);
  check_steps(f, m, names.positions, m.positions);
  in.stop();
  Model model = build_gpt2(m, in.registry);
  if (m.tied) model.weight_names.same["lm_head.weight"] = "transformer.wte.weight";
  model.weight_names.prefix = "transformer.";
  model.weight_names.unused = {".attn.bias", ".attn.masked_bias"};
  return model;
}

Model read_gpt_neox(Reading& in) {
  Fields& f = in.f;
  GptNeoX m;
  read_common(m, in, kUsualFields, {6144, 44, 64, 2048});
  m.vocabulary = f.integer("vocab_size", 50432);
  m.inner = f.integer("intermediate_size", 24576);
  m.eps = f.positive("layer_norm_eps", 1e-5);
  m.activation = f.activation("hidden_act", "gelu");
  m.tied = f.flag("tie_word_embeddings", false);
  m.parallel = f.flag("use_parallel_residual", true);
  m.attention_bias = f.flag("attention_bias", true);
  m.attention_dropout = f.probability("attention_dropout", 0);
  m.dropout = f.probability("hidden_dropout", 0);
  if (in.options.dropout) m.attention_dropout = m.dropout = *in.options.dropout;
  if (m.hidden % m.heads) f.problem("hidden_size={} is not a multiple of num_attention_heads={}", m.hidden, m.heads);
  const RotaryDefaults rotary{.size = std::max<int64_t>(m.hidden / m.heads, 1),
                              .positions = f.integer("max_position_embeddings", 2048),
                              .theta = 10000,
                              .part = 0.25,
                              .partial = true,
                              .theta_field = "rotary_emb_base",
                              .part_field = "rotary_pct"};
  m.rotary = read_rotary(in, rotary, m.steps);
  in.stop();
  Model model = build_gpt_neox(m, in.registry);
  if (m.tied) model.weight_names.same["embed_out.weight"] = "gpt_neox.embed_in.weight";
  model.weight_names.same["lm_head.weight"] = m.tied ? "gpt_neox.embed_in.weight" : "embed_out.weight";
  model.weight_names.unused = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"};
  return model;
}

Model read_opt(Reading& in) {
  Fields& f = in.f;
  Opt m;
  read_common(m, in, kUsualFields, {768, 12, 12, 2048});
  m.vocabulary = f.integer("vocab_size", 50272);
  m.positions = f.integer("max_position_embeddings", 2048);
  m.inner = f.integer("ffn_dim", 3072);
  m.width = f.integer("word_embed_proj_dim", m.hidden);
  m.activation = f.activation("activation_function", "relu");
  m.tied = f.flag("tie_word_embeddings", true);
  m.norm_before = f.flag("do_layer_norm_before", true);
  m.final_norm = m.norm_before && !f.flag("_remove_final_layer_norm", false);
  m.bias = f.flag("enable_bias", true);
  m.affine = f.flag("layer_norm_elementwise_affine", true);
  m.dropout = f.probability("dropout", 0.1);
  m.attention_dropout = f.probability("attention_dropout", 0);
  if (in.options.dropout) m.dropout = m.attention_dropout = *in.options.dropout;
  f.only("layerdrop", 0.0, "layers left out at random");
  if (m.hidden % m.heads) f.problem("hidden_size={} is not a multiple of num_attention_heads={}", m.hidden, m.heads);
  check_steps(f, m, "max_position_embeddings", m.positions);
  in.stop();
  Model model = build_opt(m, in.registry);
  if (m.tied) model.weight_names.same["lm_head.weight"] = "model.decoder.embed_tokens.weight";
  model.weight_names.prefix = "model.";
  return model;
}

namespace {

// The loss, if it is not the usual one of the head.
std::string read_bert_head(Bert& m, Reading& in) {
  Fields& f = in.f;
  std::string loss;
  if (in.options.architecture == "BertForMaskedLM") m.head = Bert::Head::kMaskedLm;
  if (in.options.architecture == "BertForPreTraining") m.head = Bert::Head::kPretraining;
  if (in.options.architecture == "BertForSequenceClassification") {
    m.head = Bert::Head::kClassifier;
    const json* labels = f.find("id2label");
    m.classes = f.integer("num_labels", labels ? static_cast<int64_t>(labels->size()) : 2);
    if (labels && static_cast<int64_t>(labels->size()) != m.classes)
      f.problem("num_labels={}, and id2label has {} labels", m.classes, labels->size());
    const std::string problem = f.text("problem_type", m.classes == 1 ? "regression" : "single_label_classification");
    if (problem == "regression") loss = "mse";
    else if (problem == "multi_label_classification") loss = "bce_with_logits";
    else if (problem != "single_label_classification")
      f.problem("{}; there are regression, single_label_classification, multi_label_classification",
                f.shown("problem_type"));
    else if (m.classes == 1) f.problem("{} needs at least two labels, num_labels is 1", f.shown("problem_type"));
  }
  return loss;
}

}  // namespace

Model read_bert(Reading& in) {
  Fields& f = in.f;
  const Options& options = in.options;
  Bert m;
  read_common(m, in, kUsualFields, {768, 12, 12, 512});
  m.types = "token_type_ids";
  m.vocabulary = f.integer("vocab_size", 30522);
  m.positions = f.integer("max_position_embeddings", 512);
  m.type_count = f.integer("type_vocab_size", 2);
  m.inner = f.integer("intermediate_size", 3072);
  m.eps = f.positive("layer_norm_eps", 1e-12);
  m.activation = f.activation("hidden_act", "gelu");
  m.tied = f.flag("tie_word_embeddings", true);
  m.dropout = f.probability("hidden_dropout_prob", 0.1);
  m.attention_dropout = f.probability("attention_probs_dropout_prob", 0.1);
  m.classifier_dropout = f.probability("classifier_dropout", m.dropout);
  if (options.dropout) m.dropout = m.attention_dropout = m.classifier_dropout = *options.dropout;
  f.only("is_decoder", false, "BERT as a decoder");
  f.only("add_cross_attention", false, "attention to another model's states");
  f.only("position_embedding_type", "absolute", "positions relative to the key");
  f.absent("pruned_heads", "layers with fewer heads are not supported");
  if (m.hidden % m.heads) f.problem("hidden_size={} is not a multiple of num_attention_heads={}", m.hidden, m.heads);
  check_steps(f, m, "max_position_embeddings", m.positions);
  const std::string loss = read_bert_head(m, in);
  in.stop();
  Model model = build_bert(m, in.registry);
  if (!loss.empty()) model.loss.kind = loss;
  model.weight_names.prefix = "bert.";
  model.weight_names.endings = {{".LayerNorm.gamma", ".LayerNorm.weight"}, {".LayerNorm.beta", ".LayerNorm.bias"}};
  model.weight_names.unused = {"embeddings.position_ids"};
  model.weight_names.heads = {"cls.", "classifier.", "pooler."};
  if (m.tied) model.weight_names.same["cls.predictions.decoder.weight"] = "bert.embeddings.word_embeddings.weight";
  model.weight_names.same["cls.predictions.decoder.bias"] = "cls.predictions.bias";
  return model;
}

}  // namespace partita::huggingface
