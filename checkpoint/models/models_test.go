package models

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Each table is used both ways: what a parameter becomes in a file is what it is made of.
func TestLayoutsReadWhatTheyWrite(t *testing.T) {
	for _, m := range []*Model{gpt2(), llama(), vit()} {
		var parameters []string
		for _, r := range m.layouts[0].rules {
			parameters = append(parameters, fill(r.ours, "12"))
		}
		all := map[string]bool{}
		for _, p := range parameters {
			all[p] = true
		}
		for _, l := range m.layouts {
			var names []string
			for _, p := range parameters {
				there, ok := l.Target(p)
				if !ok {
					t.Fatalf("%s, %s: no line for %s", m.Name, l.Name, p)
				}
				names = append(names, there.Names...)
			}
			for _, wrapped := range []string{"", "_orig_mod.", "module._orig_mod.", "module."} {
				var file []string
				for _, n := range names {
					file = append(file, wrapped+n)
				}
				of, unknown, err := l.Sources(file, func(p string) bool { return all[p] })
				if err != nil || len(unknown) > 0 || len(of) != len(parameters) {
					t.Errorf("%s, %s, %q: got %d of %d parameters, unknown %q, %v", m.Name, l.Name, wrapped, len(of), len(parameters), unknown, err)
				}
				for _, p := range parameters {
					want, _ := l.Target(p)
					if got := of[p]; got == nil || got.Form != want.Form || strings.Join(got.Names, " ") != wrapped+strings.Join(want.Names, " "+wrapped) {
						t.Errorf("%s, %s: %s is %+v, want %+v", m.Name, l.Name, p, got, want)
					}
				}
			}
		}
		if first := m.layouts[0]; slices.ContainsFunc(first.rules, func(r rule) bool { return r.form != AsIs || len(r.there) != 1 || r.there[0] != r.ours }) {
			t.Errorf("%s: the first layout, %s, is not that of package nn", m.Name, first.Name)
		}
	}
}

func TestSourcesOfWhatIsOdd(t *testing.T) {
	layout := func(m *Model, name string) *Layout {
		l, err := m.Layout(name)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	untied := func(p string) bool { return p != "lm_head.weight" }
	hf := layout(gpt2(), "hf")
	of, unknown, err := hf.Sources([]string{"h.3.attn.bias", "transformer.h.3.attn.masked_bias", "h.03.ln_1.bias", "h.x.ln_1.bias", "lm_head.weight", "h.3.ln_1.bias"}, untied)
	if err != nil || strings.Join(unknown, " ") != "h.03.ln_1.bias h.x.ln_1.bias" || len(of) != 2 {
		t.Errorf("got %v, unknown %q, %v", of, unknown, err)
	}
	// A file with lm_head.weight alone has the table there.
	if s := of["transformer.wte.weight"]; s == nil || s.Names[0] != "lm_head.weight" || s.Same != "" {
		t.Errorf("the table is %+v, want the head", s)
	}
	of, _, err = hf.Sources([]string{"wte.weight", "lm_head.weight"}, untied)
	if s := of["transformer.wte.weight"]; err != nil || s == nil || s.Names[0] != "wte.weight" || s.Same != "lm_head.weight" || len(of) != 1 {
		t.Errorf("a file with both: got %+v (%v)", s, err)
	}
	_, _, err = hf.Sources([]string{"wte.weight", "transformer.wte.weight"}, untied)
	if want := `"wte.weight" and "transformer.wte.weight" would both be "transformer.wte.weight"`; err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	of, _, err = layout(vit(), "hf").Sources([]string{"vit.encoder.layer.0.attention.attention.key.bias"}, untied)
	if s := of["encoder.layers.encoder_layer_0.self_attention.in_proj_bias"]; err != nil || s == nil || !slices.Equal(s.Names, []string{"", "vit.encoder.layer.0.attention.attention.key.bias", ""}) {
		t.Errorf("keys alone: got %+v (%v)", s, err)
	}
	if _, ok := hf.Target("score.weight"); ok || Of([]string{"fc.weight"}) != nil {
		t.Error("got a place for what no model has")
	}
}

func TestFormsAreUndone(t *testing.T) {
	for _, c := range []struct {
		form        Form
		shape, want []int
		head        int
		first       []float32
	}{
		{AsIs, []int{2, 3}, []int{2, 3}, 0, []float32{0, 1, 2, 3, 4, 5}},
		{Transposed, []int{2, 3}, []int{3, 2}, 0, []float32{0, 3, 1, 4, 2, 5}},
		// Two heads of four rows: 0 2 1 3 within each.
		{Interleaved, []int{8, 1}, []int{8, 1}, 4, []float32{0, 2, 1, 3, 4, 6, 5, 7}},
		{Interleaved, []int{6, 1}, []int{6, 1}, 6, []float32{0, 2, 4, 1, 3, 5}},
		{Transposed, []int{67, 41}, []int{41, 67}, 0, nil},
	} {
		shape, err := c.form.Shape(c.shape)
		if err != nil || !slices.Equal(shape, c.want) {
			t.Errorf("%d: shape %v (%v), want %v", c.form, shape, err, c.want)
		}
		src := make([]float32, c.shape[0]*c.shape[1])
		for i := range src {
			src[i] = float32(i)
		}
		dst, back := make([]float32, len(src)), make([]float32, len(src))
		if err := c.form.Read(dst, src, c.shape, c.head); err != nil {
			t.Fatal(err)
		}
		if c.first != nil && !slices.Equal(dst, c.first) {
			t.Errorf("%d: got %v, want %v", c.form, dst, c.first)
		}
		if err := c.form.Write(back, dst, shape, c.head); err != nil || !slices.Equal(back, src) {
			t.Errorf("%d: got %v back (%v), want %v", c.form, back, err, src)
		}
	}
	for _, head := range []int{0, 1, 3, 16} {
		if err := Interleaved.Read(make([]float32, 8), make([]float32, 8), []int{8, 1}, head); err == nil {
			t.Errorf("8 rows in heads of %d: got no error", head)
		}
	}
	if _, err := Transposed.Shape([]int{3}); err == nil || err.Error() != "got shape [3], want a matrix" {
		t.Errorf("got error %v", err)
	}
}

func TestConfigsAreReadAndRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"model_type":"gpt2"}`, "&{12 12 768 1024 50257 0.1 tanh 1e-05"},
		{`{"model_type":"gpt2","n_layer":3,"n_head":2,"n_embd":8,"n_positions":7,"vocab_size":11,"resid_pdrop":0,"embd_pdrop":0,"attn_pdrop":0,"activation_function":"gelu","layer_norm_epsilon":0.001,"n_inner":32}`, "&{3 2 8 7 11 0 none 0.001"},
		{`{"model_type":"llama","head_dim":null,"rope_theta":500000,"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":8192}}`, "&{32 32 32 4096 128 11008 32000 2048 1e-06 false 500000 128 {8 1 4 8192}"},
		{`{"model_type":"llama","num_attention_heads":4,"num_key_value_heads":2,"hidden_size":32,"head_dim":16,"tie_word_embeddings":true,"rope_parameters":{"rope_type":"linear","factor":2,"rope_theta":100,"partial_rotary_factor":0.5}}`, "&{32 4 2 32 16 11008 32000 2048 1e-06 true 100 8 {2 0 0 0}"},
		{`{"model_type":"vit","id2label":{"0":"a","1":"b","2":"c"},"image_size":32,"patch_size":4}`, "&{12 12 768 3072 4 3 32 3 0 1e-12"},
		{`{"model_type":"gpt2","scale_attn_by_inverse_layer_idx":true}`, "a model of type gpt2: scale_attn_by_inverse_layer_idx: got true, want false: package nn's model does not do it"},
		{`{"model_type":"gpt2","reorder_and_upcast_attn":true}`, "reorder_and_upcast_attn: got true"},
		{`{"model_type":"gpt2","add_cross_attention":true}`, "add_cross_attention: got true"},
		{`{"model_type":"gpt2","scale_attn_weights":false}`, "scale_attn_weights: got false, want true"},
		{`{"model_type":"gpt2","tie_word_embeddings":false}`, "tie_word_embeddings: got false"},
		{`{"model_type":"gpt2","activation_function":"relu"}`, `activation_function: got "relu", want gelu_new`},
		{`{"model_type":"gpt2","n_inner":100}`, "n_inner: got 100, want null or 3072"},
		{`{"model_type":"gpt2","n_head":7}`, "n_head: got 7, want a number that divides the 768 of n_embd"},
		{`{"model_type":"gpt2","attn_pdrop":0}`, "attn_pdrop: got 0, want the 0.1 of resid_pdrop"},
		{`{"model_type":"gpt2","n_layer":0}`, "n_layer: got 0, want 1 to"},
		{`{"model_type":"gpt2","n_layer":"12"}`, `n_layer: got "12", want an integer`},
		{`{"model_type":"llama","attention_bias":true}`, "attention_bias: got true"},
		{`{"model_type":"llama","mlp_bias":true}`, "mlp_bias: got true"},
		{`{"model_type":"llama","hidden_act":"gelu"}`, `hidden_act: got "gelu", want silu`},
		{`{"model_type":"llama","rope_scaling":{"type":"yarn","factor":4}}`, `rope_type: got "yarn", want default, linear or llama3`},
		{`{"model_type":"llama","rope_scaling":{"type":"linear"}}`, "factor: got 0, want more than 0"},
		{`{"model_type":"llama","num_attention_heads":8,"num_key_value_heads":3}`, "num_key_value_heads: got 3, want a number that divides the 8"},
		{`{"model_type":"llama","hidden_size":30,"num_attention_heads":2}`, "heads of 15 of which 1 are turned"},
		{`{"model_type":"vit","qkv_bias":false}`, "qkv_bias: got false"},
		{`{"model_type":"vit","patch_size":15}`, "patch_size: got 15"},
		{`{"model_type":"qwen2"}`, `model_type: got "qwen2", want one of ["gpt2" "llama" "vit"]`},
		{`{"model_type":"gpt2","quantization_config":{}}`, "quantization_config: the weights are quantized"},
		{`{}`, `model_type: got ""`},
		{`[]`, "cannot unmarshal"},
	} {
		cfg, err := ReadConfig([]byte(c.text))
		got := ""
		switch x := cfg.(type) {
		case *GPT2Config:
			got = fmt.Sprint(x)
		case *ViTConfig:
			got = fmt.Sprint(x)
		case *LlamaConfig:
			scaling := x.Scaling
			x.Scaling = nil
			got = strings.Replace(fmt.Sprint(x), "<nil>", strings.TrimPrefix(fmt.Sprint(scaling), "&"), 1)
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
	}
}

// What is written is read as it was, and what was read keeps the fields that nobody here knows.
func TestConfigsAreWrittenAsTheyAreRead(t *testing.T) {
	for _, c := range []Config{
		&GPT2Config{Layers: 2, Heads: 3, Width: 12, Positions: 7, Vocabulary: 60000, Activation: "none", Epsilon: 1e-3, Dropout: 0.25},
		&GPT2Config{Layers: 2, Heads: 3, Width: 12, Positions: 7, Vocabulary: 11, Activation: "tanh", Epsilon: 1e-5},
		&LlamaConfig{Layers: 2, Heads: 4, KVHeads: 2, Width: 32, HeadSize: 16, Inner: 88, Vocabulary: 53, Positions: 64, Epsilon: 1e-6, Tied: true, RotaryBase: 500000, Rotated: 8, Scaling: &RotaryScaling{8, 1, 4, 32}},
		&LlamaConfig{Layers: 2, Heads: 4, KVHeads: 4, Width: 32, HeadSize: 8, Inner: 88, Vocabulary: 53, Positions: 64, Epsilon: 1e-6, RotaryBase: 10000, Rotated: 8, Scaling: &RotaryScaling{Factor: 2}},
		&ViTConfig{Layers: 2, Heads: 3, Width: 24, Inner: 50, Patch: 4, Classes: 5, Image: 12, Channels: 3, Epsilon: 1e-6},
	} {
		text, err := c.Text()
		if err != nil {
			t.Fatal(err)
		}
		read, err := ReadConfig(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		again, err := read.Text()
		if err != nil || string(again) != string(text) {
			t.Errorf("%s: got\n%s (%v), want\n%s", c.Model(), again, err, text)
		}
		switch x := read.(type) {
		case *GPT2Config:
			x.raw = nil
		case *LlamaConfig:
			x.raw = nil
		case *ViTConfig:
			x.raw = nil
		}
		if got, _ := read.Text(); string(got) != string(text) {
			t.Errorf("%s: read as\n%s, want\n%s", c.Model(), got, text)
		}
	}
	c, err := ReadConfig([]byte(`{"model_type":"gpt2","torch_dtype":"bfloat16","mine":[1]}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Text()
	if s := string(text); err != nil || !strings.Contains(s, `"mine": [`) || !strings.Contains(s, `"dtype": "float32"`) || strings.Contains(s, "bfloat16") {
		t.Errorf("got %s (%v)", text, err)
	}
}

func TestConfigsAreComparedWithTheModel(t *testing.T) {
	c := &GPT2Config{Layers: 1, Heads: 2, Width: 8, Positions: 7, Vocabulary: 11}
	shapes := map[string][]int{"transformer.wte.weight": {11, 8}, "transformer.wpe.weight": {7, 8}, "transformer.h.0.ln_1.weight": {8}}
	if err := c.Check(shapes); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{
		"transformer.wte.weight":      "the model lacks transformer.wte.weight",
		"transformer.h.0.ln_1.weight": "the model has 0 blocks, and config.json says 1 (n_layer)",
	} {
		less := maps.Clone(shapes)
		delete(less, name)
		if err := c.Check(less); err == nil || err.Error() != want {
			t.Errorf("without %s: got %v, want %s", name, err, want)
		}
	}
	c.Positions = 9
	if err, want := c.Check(shapes), "transformer.wpe.weight has shape [7 8], and config.json says [9 8] (n_positions and n_embd)"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := (&LlamaConfig{Tied: true}).Check(map[string][]int{"lm_head.weight": {3, 4}}); err == nil || !strings.Contains(err.Error(), "tie_word_embeddings is true, and the model's lm_head.weight has shape [3 4]") {
		t.Errorf("got %v", err)
	}
}

func TestParamsOfMeta(t *testing.T) {
	if head, err := ParseParams([]byte(`{"dim":4096,"n_heads":32,"n_kv_heads":8}`)); err != nil || head != 128 {
		t.Errorf("got %d (%v), want 128", head, err)
	}
	for text, want := range map[string]string{
		`{"dim":32}`:              "n_heads: got 0",
		`{"dim":32,"n_heads":5}`:  "n_heads: got 5, want a number that divides the 32 of dim",
		`{"dim":32,"n_heads":32}`: "heads of an odd number of rows",
		`x`:                       "invalid character",
	} {
		if _, err := ParseParams([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// A config.json may come from anyone. What is read is written so that it is read again.
func FuzzReadConfig(f *testing.F) {
	for _, text := range []string{
		`{"model_type":"gpt2","n_inner":null}`, `{"model_type":"llama","rope_parameters":{"rope_type":"llama3","factor":8}}`, `{"model_type":"llama","rope_scaling":{"type":"linear","factor":2}}`,
		`{"model_type":"vit","id2label":{"0":"a"}}`, `{"model_type":"llama","head_dim":1e3,"hidden_size":-1}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ReadConfig(text)
		_, _ = ParseParams(text)
		if err != nil {
			return
		}
		_ = c.Check(map[string][]int{})
		again, err := c.Text()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadConfig(again); err != nil {
			t.Errorf("%s was written as %s: %v", text, again, err)
		}
	})
}
