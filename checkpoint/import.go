package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/files/patterns"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/observe/shown"
)

// An Array is where Import puts a parameter or statistic.
type Array struct {
	Name   string
	Shape  []int
	Values []float32
}

// ImportConfig says which part of a model ImportPart takes. Its zero value takes all.
//
// Patterns are those of path.Match: "*" is any text without a slash, "?" one character, "[ab]" one
// of those. One that begins with "!" takes out again what an earlier one has taken: "*",
// "!layer1.*" is all but layer1.
type ImportConfig struct {
	// Rename gives the file's tensors the model's names before anything else: rules "OLD=NEW",
	// of which the first that fits a name counts. Each "*" in NEW stands for what the "*" at
	// the same place in OLD matched: "backbone.*=*", "module.*=*", "*.gamma=*.weight".
	Rename []string
	// Skip are patterns of the model's names: such arrays keep the values that they have, as a
	// new head does ("fc.*").
	Skip []string
	// IgnoreMismatched lets arrays keep their values whose tensor in the file has another
	// shape, as ignore_mismatched_sizes of Hugging Face's from_pretrained does. Otherwise such
	// a tensor is an error.
	IgnoreMismatched bool
	// HeadSize is the number of rows of an attention head, which has to be known to read a Llama
	// in Meta's layout. 0: what params.json beside the file says.
	HeadSize int
}

// Imported says what ImportPart has done with a model.
type Imported struct {
	// From is the file, or the checkpoint's folder.
	From string
	// Loaded are arrays that have the file's values now.
	Loaded []string
	// Skipped and Mismatched have the values they had. Skipped are those of ImportConfig.Skip,
	// no matter whether the file has them; Mismatched those of ImportConfig.IgnoreMismatched.
	Skipped    []string
	Mismatched []Mismatch
	// Unused are names in the file for which there was no array, after Rename.
	Unused []string
}

// A Mismatch is an array whose tensor in the file has another shape.
type Mismatch struct {
	Name        string
	File, Model []int
}

// Import reads a model's parameters and statistics into arrays, such as those of a program that is
// to start from them: from PyTorch's state dict in a safetensors file
// (safetensors.torch.save_file), from anything that Export reads, or from a folder of Hugging Face's
// with model.safetensors or model.safetensors.index.json, which names several files. Types F64, F32,
// F16 and BF16 are read. An array that is missing, or has another shape, is an error; no array is
// changed before all have been read and verified. It returns the names in the file for which there
// was no array.
//
// Where the arrays are those of nn.GPT, nn.Llama or nn.ViT, files may have the names and layouts of
// Hugging Face, of nanoGPT, of Meta, of torchvision or of timm (package checkpoint/models): it follows
// from the names and shapes in the file which they are, and its tensors are transposed, put together
// and put in order. A tensor that the model does not have is an error then.
func Import(ctx context.Context, from string, into []Array) (unused []string, err error) {
	all, err := ImportPart(ctx, from, into, ImportConfig{})
	if err != nil {
		return nil, err
	}
	return all.Unused, nil
}

// ImportPart is Import of a part of a model, to train it further on another task: names may differ,
// and arrays may keep the values that they have. An array that is neither in the file nor skipped
// is an error, and so is a pattern or a rule that matches nothing. Such errors, and those of files
// that are missing, damaged or no safetensors, are kvstore.ErrFinal: no restart can mend them.
func ImportPart(ctx context.Context, from string, into []Array, cfg ImportConfig) (_ *Imported, err error) {
	defer func() { err = finalImport(err) }()
	skip, err := patterns.New("ImportConfig.Skip", cfg.Skip)
	if err != nil {
		return nil, exitreport.Final(exitreport.Usage, fmt.Errorf("checkpoint: import %s: %w", from, err))
	}
	m, err := openModel(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: import %s: %w", from, err)
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	fail := func(err error) (*Imported, error) { return nil, fmt.Errorf("checkpoint: import %s: %w", m.from, err) }
	refuse := func(err error) (*Imported, error) { return fail(exitreport.Final(exitreport.Usage, err)) }
	if err := m.rename(cfg.Rename); err != nil {
		return refuse(err)
	}
	if err := m.translate(ctx, into, skip, &cfg); err != nil {
		return refuse(err)
	}
	match, err := m.match(into, skip)
	if err != nil {
		return fail(err)
	}
	if unused := skip.Unused(); len(unused) > 0 {
		return refuse(fmt.Errorf("ImportConfig.Skip: %q matches no name of the model or of the file; the model's are such as %s", unused[0], some(namesOf(into))))
	}
	if err := match.check(cfg); err != nil {
		return refuse(err)
	}
	if err := match.load(m); err != nil {
		return fail(err)
	}
	return &match.Imported, nil
}

// A matching is what an import does with each array of a program and of a file.
type matching struct {
	Imported
	missing []string
	// found are the arrays of the program that the file has.
	found []Array
}

// match finds the arrays of a program in the model. Arrays that skip matches keep their values.
func (m *model) match(into []Array, skip *patterns.List) (*matching, error) {
	x := &matching{Imported: Imported{From: m.from}}
	wanted := map[string]bool{}
	for _, to := range into {
		a := m.arrays[to.Name]
		switch {
		case skip.Match(to.Name):
			x.Skipped = append(x.Skipped, to.Name)
		case a == nil:
			x.missing = append(x.missing, to.Name)
		default:
			n, err := elements(a.shape)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", shown.Name(to.Name), err)
			}
			if n != int64(len(to.Values)) || !m.flat && !slices.Equal(a.shape, to.Shape) {
				x.Mismatched = append(x.Mismatched, Mismatch{to.Name, a.shape, to.Shape})
				break
			}
			x.found = append(x.found, to)
		}
		wanted[to.Name] = true
	}
	for _, name := range m.names() {
		if !wanted[name] && !strings.HasSuffix(name, batches) && !skip.Match(name) {
			x.Unused = append(x.Unused, name)
		}
	}
	x.Unused = append(x.Unused, m.leftOut...)
	return x, nil
}

// check refuses arrays that the file lacks, and those that have another shape there, unless these
// are to keep their values.
func (x *matching) check(cfg ImportConfig) error {
	if len(x.missing) > 0 {
		besides := ""
		if len(x.Unused) > 0 {
			besides = ", and has " + some(x.Unused) + ", which the model lacks"
		}
		return fmt.Errorf("%s: %w: the file lacks %s of the model%s. If the file has the same under other names, rename them (ImportConfig.Rename); if arrays are to keep their own values, skip them (ImportConfig.Skip)",
			some(x.missing), ErrNoTensor, plural.Of(len(x.missing), "array"), besides)
	}
	if len(x.Mismatched) == 0 || cfg.IgnoreMismatched {
		return nil
	}
	first, more := x.Mismatched[0], ""
	if n := len(x.Mismatched) - 1; n > 0 {
		more = fmt.Sprintf(", and %s more", plural.Of(n, "array"))
	}
	return fmt.Errorf("%s: got shape %v, want %v%s: another head, or another model. To let such arrays keep their own values, skip them by name (ImportConfig.Skip), or all that have another shape (ImportConfig.IgnoreMismatched)",
		shown.Name(first.Name), first.File, first.Model, more)
}

// load reads all arrays that were found, and only then changes those of the program.
func (x *matching) load(m *model) error {
	read := make([][]float32, len(x.found))
	for i, to := range x.found {
		read[i] = make([]float32, len(to.Values))
		if err := m.arrays[to.Name].read(read[i]); err != nil {
			return err
		}
	}
	for i, to := range x.found {
		copy(to.Values, read[i])
		x.Loaded = append(x.Loaded, to.Name)
	}
	return nil
}

// finalImport marks an error of an import that another try would meet again. Others, such as those
// of a network, stay as they are.
func finalImport(err error) error {
	switch {
	case errors.Is(err, ErrDamaged):
		return exitreport.Final(exitreport.Damaged, err)
	case errors.Is(err, fs.ErrNotExist):
		return exitreport.Final(exitreport.MissingFile, err)
	case errors.Is(err, ErrPickle), errors.Is(err, ErrScheme):
		return exitreport.Final(exitreport.Usage, err)
	}
	return err
}

// rename gives arrays other names.
func (m *model) rename(rules []string) error {
	if len(rules) == 0 {
		return nil
	}
	list := make([]*patterns.Renaming, len(rules))
	for i, rule := range rules {
		var err error
		if list[i], err = patterns.NewRenaming(rule); err != nil {
			return fmt.Errorf("ImportConfig.Rename[%d]: %w", i, err)
		}
	}
	used := make([]bool, len(rules))
	renamed, was := map[string]*modelArray{}, map[string]string{}
	names := m.names()
	for _, name := range names {
		to := name
		for i, r := range list {
			if other, ok := r.Rename(name); ok {
				to, used[i] = other, true
				break
			}
		}
		if other, taken := was[to]; taken {
			return fmt.Errorf("ImportConfig.Rename: %s and %s would both be %s", shown.Name(other), shown.Name(name), shown.Name(to))
		}
		renamed[to], was[to] = m.arrays[name], name
	}
	if i := slices.Index(used, false); i >= 0 {
		return fmt.Errorf("ImportConfig.Rename[%d]: %q changes no name of the file; it has such as %s", i, rules[i], some(names))
	}
	m.arrays = renamed
	return nil
}

// namesOf returns the names of arrays, for messages.
func namesOf(list []Array) []string {
	names := make([]string, len(list))
	for i, a := range list {
		names[i] = a.Name
	}
	return names
}

// some names the first ones of a list.
func some(names []string) string {
	const most = 4
	if len(names) == 0 {
		return "nothing"
	}
	quoted := make([]string, min(len(names), most))
	for i := range quoted {
		quoted[i] = shown.Name(names[i])
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
