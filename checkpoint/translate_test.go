package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/checkpoint/models"
)

// gptArrays are those of a GPT-2 of one block, 4 wide, for 5 tokens and 3 positions.
func gptArrays() (list []Array) {
	add := func(name string, shape ...int) {
		n, _ := elements(shape)
		list = append(list, Array{name, shape, make([]float32, n)})
	}
	add("transformer.wte.weight", 5, 4)
	add("transformer.wpe.weight", 3, 4)
	for _, norm := range []string{"h.0.ln_1", "h.0.ln_2", "ln_f"} {
		add("transformer."+norm+".weight", 4)
		add("transformer."+norm+".bias", 4)
	}
	for name, shape := range map[string][]int{"attn.c_attn": {12, 4}, "attn.c_proj": {4, 4}, "mlp.c_fc": {16, 4}, "mlp.c_proj": {4, 16}} {
		add("transformer.h.0."+name+".weight", shape...)
		add("transformer.h.0."+name+".bias", shape[0])
	}
	return list
}

// numbered gives arrays different values, and returns them as tensors.
func numbered(list []Array) (all []Tensor) {
	for i, a := range list {
		for j := range a.Values {
			a.Values[j] = float32(100*i + j + 1)
		}
		all = append(all, Float32s(a.Name, a.Shape, a.Values))
	}
	return all
}

// conv1D is a GPT's arrays as Hugging Face has them.
func conv1D(list []Array) (all []Tensor) {
	for _, a := range list {
		if !strings.Contains(a.Name, ".c_") || len(a.Shape) != 2 {
			all = append(all, Float32s(a.Name, a.Shape, a.Values))
			continue
		}
		turned := make([]float32, len(a.Values))
		for i := range a.Shape[0] {
			for j := range a.Shape[1] {
				turned[j*a.Shape[0]+i] = a.Values[i*a.Shape[1]+j]
			}
		}
		all = append(all, Float32s(a.Name, []int{a.Shape[1], a.Shape[0]}, turned))
	}
	return all
}

// named gives tensors other names.
func named(all []Tensor, rename func(string) string) []Tensor {
	all = slices.Clone(all)
	for i := range all {
		all[i].name = rename(all[i].name)
	}
	return all
}

func saved(t *testing.T, all []Tensor) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := Save(path, map[string]string{"format": "pt"}, all); err != nil {
		t.Fatal(err)
	}
	return path
}

// without leaves a tensor out.
func without(all []Tensor, name string) []Tensor {
	return slices.DeleteFunc(slices.Clone(all), func(t Tensor) bool { return t.name == name })
}

func TestImportTakesGPT2InAllItsFiles(t *testing.T) {
	model := gptArrays()
	own := numbered(model)
	hf := conv1D(model)
	trunk := func(name string) string { return strings.TrimPrefix(name, "transformer.") }
	table := model[0]
	head := Float32s("lm_head.weight", table.Shape, table.Values)
	mask := []Tensor{Float32s("h.0.attn.bias", []int{1, 1, 3, 3}, make([]float32, 9)), Float32s("h.0.attn.masked_bias", nil, []float32{-1e4})}
	half := make([]float32, 20)
	for i := range half {
		half[i] = 0.5
	}
	for name, file := range map[string][]Tensor{
		"nanoGPT": own, "compiled nanoGPT": named(own, func(n string) string { return "_orig_mod." + n }), "with the head": append(slices.Clone(own), head),
		"Hugging Face": hf, "the trunk": append(named(hf, trunk), mask...), "the head alone": append(without(hf, "transformer.wte.weight"), head),
		"DistributedDataParallel": named(hf, func(n string) string { return "module." + n }),
	} {
		t.Run(name, func(t *testing.T) {
			into := gptArrays()
			slices.SortFunc(into, func(a, b Array) int { return strings.Compare(a.Name, b.Name) })
			unused, err := Import(t.Context(), saved(t, file), into)
			if err != nil || len(unused) > 0 {
				t.Fatalf("unused %q, %v", unused, err)
			}
			for _, a := range into {
				i := slices.IndexFunc(model, func(b Array) bool { return b.Name == a.Name })
				if !slices.Equal(a.Values, model[i].Values) {
					t.Errorf("%s: got %v, want %v", a.Name, a.Values, model[i].Values)
				}
			}
		})
	}
	for name, c := range map[string]struct {
		file []Tensor
		cfg  ImportConfig
		want string
	}{
		"another head":      {append(slices.Clone(hf), Float32s("lm_head.weight", table.Shape, half)), ImportConfig{}, `"lm_head.weight" and "transformer.wte.weight" differ in the file`},
		"skipped head":      {append(slices.Clone(hf), Float32s("lm_head.weight", table.Shape, half)), ImportConfig{Skip: []string{"lm_head.*"}}, ""},
		"unknown":           {append(slices.Clone(hf), Float32s("score.weight", nil, half[:1])), ImportConfig{}, `the file has "score.weight", which GPT-2 does not have (format hf): without it the model would compute something else`},
		"skipped unknown":   {append(slices.Clone(hf), Float32s("score.weight", nil, half[:1])), ImportConfig{Skip: []string{"score.*"}}, ""},
		"more blocks":       {append(slices.Clone(own), Float32s("transformer.h.1.ln_1.weight", []int{4}, half[:4])), ImportConfig{}, `the file has "transformer.h.1.ln_1.weight", which GPT-2 does not have (format nanogpt)`},
		"fewer tensors":     {without(hf, "transformer.ln_f.bias"), ImportConfig{}, `"transformer.ln_f.bias": no such tensor: the file lacks 1 array of the model`},
		"another width":     {named(hf, func(n string) string { return strings.Replace(n, "c_fc", "c_attn2", 1) }), ImportConfig{}, `the file has "transformer.h.0.mlp.c_attn2.bias", "transformer.h.0.mlp.c_attn2.weight"`},
		"twice":             {append(slices.Clone(hf), Float32s("wte.weight", table.Shape, half)), ImportConfig{}, `"transformer.wte.weight" and "wte.weight" would both be "transformer.wte.weight"`},
		"other names":       {named(hf, func(n string) string { return "backbone." + n }), ImportConfig{}, `no such tensor: the file lacks 16 arrays of the model, and has`},
		"other names, told": {named(hf, func(n string) string { return "backbone." + n }), ImportConfig{Rename: []string{"backbone.*=*"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			into := gptArrays()
			_, err := ImportPart(t.Context(), saved(t, c.file), into, c.cfg)
			if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
			if err != nil && into[0].Values[0] != 0 {
				t.Error("an array has changed")
			}
		})
	}
}

// A program without biases takes a file whose biases are zero, and no other.
func TestImportWithoutBiases(t *testing.T) {
	model := gptArrays()
	numbered(model)
	for i, a := range model {
		if strings.HasSuffix(a.Name, ".bias") {
			clear(model[i].Values)
		}
	}
	weights := func() []Array {
		return slices.DeleteFunc(gptArrays(), func(a Array) bool { return strings.HasSuffix(a.Name, ".bias") })
	}
	if _, err := Import(t.Context(), saved(t, conv1D(model)), weights()); err != nil {
		t.Error(err)
	}
	at := slices.IndexFunc(model, func(a Array) bool { return a.Name == "transformer.ln_f.bias" })
	model[at].Values[3] = 1
	if _, err := Import(t.Context(), saved(t, conv1D(model)), weights()); err == nil || !strings.Contains(err.Error(), `the file has "transformer.ln_f.bias", which GPT-2 does not have`) {
		t.Errorf("got error %v", err)
	}
}

// Models that have no layouts lose wrappers' prefixes, and nothing else.
func TestImportTakesOffWrappers(t *testing.T) {
	w := Array{"fc.weight", []int{2}, make([]float32, 2)}
	path := saved(t, []Tensor{Float32s("module.fc.weight", []int{2}, []float32{1, 2}), Float32s("module.other", []int{1}, []float32{3})})
	unused, err := Import(t.Context(), path, []Array{w})
	if err != nil || w.Values[1] != 2 || !slices.Equal(unused, []string{"module.other"}) {
		t.Errorf("got %v, unused %q (%v)", w.Values, unused, err)
	}
}

// shards writes a model's tensors into files by turns, with an index.
func shards(t *testing.T, all []Tensor, files int) string {
	t.Helper()
	dir := t.TempDir()
	parts := make([][]Tensor, files)
	var entries []string
	for i, tensor := range all {
		parts[i%files] = append(parts[i%files], tensor)
		entries = append(entries, fmt.Sprintf("%q:%q", tensor.name, shardName(i%files, files)))
	}
	for i, part := range parts {
		if err := Save(filepath.Join(dir, shardName(i, files)), nil, part); err != nil {
			t.Fatal(err)
		}
	}
	writeIndex(t, dir, `{"metadata":{"total_size":1},"weight_map":{`+strings.Join(entries, ",")+`}}`)
	return dir
}

func shardName(i, n int) string { return fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, n) }

func writeIndex(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, IndexFile), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestImportTakesShardsByTheirIndex(t *testing.T) {
	model := gptArrays()
	numbered(model)
	dir := shards(t, conv1D(model), 3)
	for _, from := range []string{dir, dir + "/", filepath.Join(dir, IndexFile)} {
		into := gptArrays()
		if _, err := Import(t.Context(), from, into); err != nil {
			t.Fatal(err)
		}
		if slices.Equal(into[0].Values, make([]float32, len(into[0].Values))) {
			t.Errorf("%s: got zeros", from)
		}
	}
	// What one shard has and the index does not name is not looked at.
	two := func() []Array {
		return []Array{{"a", []int{1}, make([]float32, 1)}, {"b", []int{1}, make([]float32, 1)}}
	}
	dir = shards(t, []Tensor{Float32s("a", []int{1}, []float32{1}), Float32s("b", []int{1}, []float32{2}), Float32s("c", []int{1}, []float32{3})}, 2)
	first, second := shardName(0, 2), shardName(1, 2)
	for text, want := range map[string]string{
		`{"weight_map":{"a":"` + first + `","b":"` + second + `"}}`:     "",
		`{"weight_map":{"a":"` + first + `","b":"` + first + `"}}`:      `it says that "b" is in ` + first,
		`{"weight_map":{"a":"` + first + `","b":"gone.safetensors"}}`:   "no such file",
		`{"weight_map":{"a":"` + first + `","b":"../` + second + `"}}`:  `"b" is in "../` + second + `", want the name of a file .safetensors without slashes, beside the index`,
		`{"weight_map":{"a":"` + first + `","b":"..\\` + second + `"}}`: "without slashes",
		`{"weight_map":{"a":"` + first + `","b":"model.bin"}}`:          `"b" is in "model.bin"`,
		`{"weight_map":{"a":"` + first + `","a":"` + second + `"}}`:     "each key once",
		`{"weight_map":{"a":"` + first + `","b":7}}`:                    `"b" is in 7`,
		`{"metadata":{}}`:                      "got no weight_map",
		`{"weight_map":{"a":"` + first + `"}}`: `"b": no such tensor`,
		`{"weight_map":{"a":"` + first + `","b":"` + second + `"}} and more`: "after the object, want nothing",
		`[]`: "want an object",
	} {
		writeIndex(t, dir, text)
		_, err := Import(t.Context(), dir, two())
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", text, err, want)
		}
	}
}

func TestAFolderOfPicklesIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pytorch_model.bin"), []byte("PK"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(t.Context(), dir, nil); !errors.Is(err, ErrPickle) || !strings.Contains(err.Error(), "pytorch_model.bin") {
		t.Errorf("got error %v", err)
	}
	if _, err := Import(t.Context(), t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "or a folder with model.safetensors or model.safetensors.index.json") {
		t.Errorf("got error %v", err)
	}
}

// llamaArrays are those of a Llama of one block, with two heads of four rows over one.
func llamaArrays(tied bool) (list []Array) {
	add := func(name string, shape ...int) {
		n, _ := elements(shape)
		list = append(list, Array{name + ".weight", shape, make([]float32, n)})
	}
	const block = "model.layers.0."
	add("model.embed_tokens", 5, 8)
	add(block+"input_layernorm", 8)
	add(block+"self_attn.q_proj", 8, 8)
	add(block+"self_attn.k_proj", 4, 8)
	add(block+"self_attn.v_proj", 4, 8)
	add(block+"self_attn.o_proj", 8, 8)
	add(block+"post_attention_layernorm", 8)
	add(block+"mlp.gate_proj", 12, 8)
	add(block+"mlp.up_proj", 12, 8)
	add(block+"mlp.down_proj", 8, 12)
	add("model.norm", 8)
	if !tied {
		add("lm_head", 5, 8)
	}
	return list
}

// Every format of an export is read as what it was made of.
func TestImportReadsWhatExportAsWrites(t *testing.T) {
	llama := &models.LlamaConfig{Layers: 1, Heads: 2, KVHeads: 1, Width: 8, HeadSize: 4, Inner: 12, Vocabulary: 5, Positions: 9, Epsilon: 1e-5, RotaryBase: 10000, Rotated: 4}
	gpt := &models.GPT2Config{Layers: 1, Heads: 2, Width: 4, Positions: 3, Vocabulary: 5, Activation: "tanh", Epsilon: 1e-5}
	vit := &models.ViTConfig{Layers: 1, Heads: 2, Width: 4, Inner: 6, Patch: 2, Classes: 3, Image: 4, Channels: 1, Epsilon: 1e-6}
	for _, c := range []struct {
		model   func() []Array
		config  models.Config
		formats []string
	}{
		{gptArrays, gpt, []string{"", "nanogpt", "hf", "hf/"}},
		{func() []Array { return llamaArrays(false) }, llama, []string{"", "hf", "hf/", "meta"}},
		{func() []Array { return vitArrays() }, vit, []string{"", "torchvision", "timm", "hf", "hf/"}},
	} {
		for _, format := range c.formats {
			t.Run(c.config.Model()+" "+format, func(t *testing.T) {
				model := c.model()
				from := saved(t, numbered(model))
				if err := WriteConfig(t.Context(), filepath.Dir(from), c.config); err != nil {
					t.Fatal(err)
				}
				name, folder := strings.CutSuffix(format, "/")
				to := filepath.Join(t.TempDir(), "out")
				if !folder {
					to += ".safetensors"
				}
				e, err := ExportAs(t.Context(), from, to, ExportConfig{Format: name})
				if err != nil {
					t.Fatal(err)
				}
				if folder {
					if again, err := ReadConfig(t.Context(), to); err != nil || again.Model() != c.config.Model() {
						t.Errorf("config.json: got %v (%v)", again, err)
					}
				}
				into := c.model()
				done, err := ImportPart(t.Context(), to, into, ImportConfig{HeadSize: 4})
				if err != nil || len(done.Unused) > 0 || e.Bytes == 0 {
					t.Fatalf("got %+v (%v), of %+v", done, err, e)
				}
				for _, a := range into {
					i := slices.IndexFunc(model, func(b Array) bool { return b.Name == a.Name })
					if !slices.Equal(a.Values, model[i].Values) {
						t.Errorf("%s: got %v, want %v", a.Name, a.Values, model[i].Values)
					}
				}
			})
		}
	}
}

func vitArrays() (list []Array) {
	add := func(name string, shape ...int) {
		n, _ := elements(shape)
		list = append(list, Array{name, shape, make([]float32, n)})
	}
	layer := func(name string, shape ...int) {
		add(name+"weight", shape...)
		add(name+"bias", shape[0])
	}
	const block = "encoder.layers.encoder_layer_0."
	add("class_token", 1, 1, 4)
	add("encoder.pos_embedding", 1, 5, 4)
	layer("conv_proj.", 4, 1, 2, 2)
	layer(block+"ln_1.", 4)
	layer(block+"self_attention.in_proj_", 12, 4)
	layer(block+"self_attention.out_proj.", 4, 4)
	layer(block+"ln_2.", 4)
	layer(block+"mlp.0.", 6, 4)
	layer(block+"mlp.3.", 4, 6)
	layer("encoder.ln.", 4)
	layer("heads.head.", 3, 4)
	return list
}

func TestExportAsRefuses(t *testing.T) {
	gpt := saved(t, numbered(gptArrays()))
	llama := saved(t, numbered(llamaArrays(false)))
	other := saved(t, []Tensor{Float32s("fc.weight", []int{1}, []float32{1})})
	wrong := t.TempDir()
	if err := WriteConfig(t.Context(), wrong, &models.GPT2Config{Layers: 2, Heads: 2, Width: 4, Positions: 3, Vocabulary: 5, Epsilon: 1e-5}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "out.safetensors"), filepath.Join(dir, "out")
	for _, c := range []struct {
		from, to string
		cfg      ExportConfig
		want     string
	}{
		{gpt, file, ExportConfig{Format: "meta"}, `got the format "meta", want one of those of GPT-2: nanogpt, hf`},
		{gpt, folder, ExportConfig{Format: "nanogpt"}, "want one that ends in .safetensors"},
		{gpt, folder, ExportConfig{Format: "hf"}, "is not in its weights, but in a config.json, which the program writes beside its checkpoints"},
		{llama, file, ExportConfig{Format: "meta"}, "is not in its weights, but in a config.json"},
		{gpt, folder, ExportConfig{Format: "hf", Config: wrong}, "config.json is of another model: the model has 1 blocks, and config.json says 2 (n_layer)"},
		{llama, folder, ExportConfig{Format: "hf", Config: wrong}, "config.json is of GPT-2, want one of Llama"},
		{other, file, ExportConfig{Format: "hf"}, "the parameters are not those of nn.GPT, nn.Llama or nn.ViT"},
	} {
		if _, err := ExportAs(t.Context(), c.from, c.to, c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got error %v, want %q", c.cfg, err, c.want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v (%v), want nothing written", left, err)
	}
}

// In Meta's layout the size of a head is in params.json, or given.
func TestMetasHeadsAreNeeded(t *testing.T) {
	model := llamaArrays(false)
	config := t.TempDir()
	if err := WriteConfig(t.Context(), config, &models.LlamaConfig{Layers: 1, Heads: 2, KVHeads: 1, Width: 8, HeadSize: 4, Inner: 12, Vocabulary: 5, Positions: 9, Epsilon: 1e-5, RotaryBase: 10000, Rotated: 4}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	to := filepath.Join(dir, "consolidated.safetensors")
	if _, err := ExportAs(t.Context(), saved(t, numbered(model)), to, ExportConfig{Format: "meta", Config: config}); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(t.Context(), to, llamaArrays(false)); err == nil || !strings.Contains(err.Error(), "put params.json beside it, or give ImportConfig.HeadSize") {
		t.Errorf("got error %v", err)
	}
	if _, err := ImportPart(t.Context(), to, llamaArrays(false), ImportConfig{HeadSize: 3}); err == nil || !strings.Contains(err.Error(), "got 4 rows and heads of 3") && !strings.Contains(err.Error(), "got 8 rows and heads of 3") {
		t.Errorf("got error %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, paramsFile), []byte(`{"dim":8,"n_heads":2}`), 0o666); err != nil {
		t.Fatal(err)
	}
	into := llamaArrays(false)
	if _, err := Import(t.Context(), dir, into); err != nil || !slices.Equal(into[2].Values, model[2].Values) {
		t.Errorf("got %v (%v), want %v", into[2].Values, err, model[2].Values)
	}
	// A tied model takes a head that is its table, and no other.
	tied := llamaArrays(true)
	if _, err := Import(t.Context(), dir, tied); err == nil || !strings.Contains(err.Error(), `"output.weight" and "tok_embeddings.weight" differ in the file`) {
		t.Errorf("got error %v", err)
	}
	if _, err := Import(t.Context(), saved(t, numbered(tied)), llamaArrays(false)); err == nil || !strings.Contains(err.Error(), `"lm_head.weight": no such tensor`) {
		t.Errorf("got error %v", err)
	}
}

// An index may come from anyone.
func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":1},"weight_map":{"a":"model-00001-of-00002.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x.safetensors"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parseIndex(text)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, e := range list {
			if seen[e.tensor] || e.file != filepath.Base(e.file) || filepath.Ext(e.file) != ".safetensors" {
				t.Errorf("got %+v", e)
			}
			seen[e.tensor] = true
		}
	})
}
