package models

// gpt2 has the names and layouts of nn.GPT, which are nanoGPT's and llm.c's. Hugging Face's Conv1D
// has the weights of linear layers the other way round.
func gpt2() *Model {
	layout := func(name string, linear Form) *Layout {
		const trunk, block = "transformer.", "transformer.h.*."
		var t table
		same := func(name string, form Form) { t.both(name, name, form) }
		t.weight(trunk+"wte", trunk+"wte", AsIs)
		t.weight(trunk+"wpe", trunk+"wpe", AsIs)
		same(block+"ln_1", AsIs)
		same(block+"attn.c_attn", linear)
		same(block+"attn.c_proj", linear)
		same(block+"ln_2", AsIs)
		same(block+"mlp.c_fc", linear)
		same(block+"mlp.c_proj", linear)
		same(trunk+"ln_f", AsIs)
		t.weight("lm_head", "lm_head", AsIs)
		return &Layout{
			Name: name, prefix: trunk, rules: t, head: "lm_head.weight", table: trunk + "wte.weight",
			// Masks of causal attention, which older versions wrote.
			skipped: []string{block + "attn.bias", block + "attn.masked_bias"},
		}
	}
	return &Model{
		Name:    "GPT-2",
		marks:   []string{"transformer.wte.weight", "transformer.h.0.attn.c_attn.weight"},
		layouts: []*Layout{layout("nanogpt", AsIs), layout("hf", Transposed)},
	}
}

// llama has the names and layouts of nn.Llama, which are Hugging Face's, and those of Meta's files.
func llama() *Model {
	const block = "model.layers.*."
	ours := []string{
		"model.embed_tokens", block + "input_layernorm", block + "self_attn.q_proj", block + "self_attn.k_proj", block + "self_attn.v_proj",
		block + "self_attn.o_proj", block + "post_attention_layernorm", block + "mlp.gate_proj", block + "mlp.up_proj", block + "mlp.down_proj", "model.norm", "lm_head",
	}
	metas := []string{
		"tok_embeddings", "layers.*.attention_norm", "layers.*.attention.wq", "layers.*.attention.wk", "layers.*.attention.wv",
		"layers.*.attention.wo", "layers.*.ffn_norm", "layers.*.feed_forward.w1", "layers.*.feed_forward.w3", "layers.*.feed_forward.w2", "norm", "output",
	}
	const query, key = 2, 3
	var hf, meta table
	for i, name := range ours {
		form := AsIs
		if i == query || i == key {
			form = Interleaved
		}
		hf.weight(name, name, AsIs)
		meta.weight(name, metas[i], form)
	}
	const head, embeddings = "lm_head.weight", "model.embed_tokens.weight"
	return &Model{
		Name:  "Llama",
		marks: []string{embeddings, "model.layers.0.self_attn.q_proj.weight"},
		layouts: []*Layout{
			{Name: "hf", prefix: "model.", rules: hf, head: head, table: embeddings, skipped: []string{block + "self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq"}},
			{Name: "meta", rules: meta, head: head, table: embeddings, skipped: []string{"rope.freqs"}},
		},
	}
}

// vit has the names and layouts of nn.ViT, which are torchvision's, and those of timm and of Hugging
// Face, whose queries, keys and values are layers of their own.
func vit() *Model {
	const block = "encoder.layers.encoder_layer_*."
	single := []string{"class_token", "encoder.pos_embedding"}
	layers := []string{
		"conv_proj", block + "ln_1", block + "self_attention.out_proj", block + "ln_2", block + "mlp.0", block + "mlp.3", "encoder.ln", "heads.head",
	}
	layout := func(name, prefix string, singles, theirs, attention []string, underscore string) *Layout {
		var t table
		for i, ours := range single {
			t.plain(ours, singles[i])
		}
		for i, ours := range layers {
			t.both(ours, theirs[i], AsIs)
		}
		for _, part := range []string{"weight", "bias"} {
			r := rule{ours: block + "self_attention.in_proj_" + part}
			for _, layer := range attention {
				r.there = append(r.there, layer+underscore+part)
			}
			t = append(t, r)
		}
		return &Layout{Name: name, prefix: prefix, rules: t}
	}
	const hfs, attention = "vit.encoder.layer.*.", "vit.encoder.layer.*.attention.attention."
	hf := []string{
		"vit.embeddings.patch_embeddings.projection", hfs + "layernorm_before", hfs + "attention.output.dense", hfs + "layernorm_after",
		hfs + "intermediate.dense", hfs + "output.dense", "vit.layernorm", "classifier",
	}
	timm := []string{"patch_embed.proj", "blocks.*.norm1", "blocks.*.attn.proj", "blocks.*.norm2", "blocks.*.mlp.fc1", "blocks.*.mlp.fc2", "norm", "head"}
	return &Model{
		Name:  "ViT",
		marks: []string{"class_token", "encoder.layers.encoder_layer_0.self_attention.in_proj_weight"},
		layouts: []*Layout{
			layout("torchvision", "", single, layers, []string{block + "self_attention.in_proj"}, "_"),
			layout("timm", "", []string{"cls_token", "pos_embed"}, timm, []string{"blocks.*.attn.qkv"}, "."),
			layout("hf", "vit.", []string{"vit.embeddings.cls_token", "vit.embeddings.position_embeddings"}, hf, []string{attention + "query", attention + "key", attention + "value"}, "."),
		},
	}
}
