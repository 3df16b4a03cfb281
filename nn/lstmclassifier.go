package nn

import (
	"fmt"

	"gorgonia.org/gorgonia"
)

// LSTMClassifierConfig describes a classifier of sequences by an LSTM.
type LSTMClassifierConfig struct {
	// Vocabulary is the number of rows of the embedding, and Width that of numbers in each.
	Vocabulary, Width int
	// Hidden is the width of the LSTM's state, Layers the number of its layers; 0 layers: 1.
	Hidden, Layers int
	// Bidirectional reads sequences in both directions.
	Bidirectional bool
	// Dropout is the rate behind the embedding, between layers and in front of the last layer; 0:
	// none.
	Dropout float64
	// Lengths (B), such as IDs, are the lengths of the sequences; nil: all are T long.
	Lengths *gorgonia.Node
	// Classes is the number of logits.
	Classes int
}

// Parameters is the number of parameters.
func (c LSTMClassifierConfig) Parameters() int {
	directions, n, in := 1, c.Vocabulary*c.Width, c.Width
	if c.Bidirectional {
		directions = 2
	}
	for range max(1, c.Layers) {
		n += directions * 4 * c.Hidden * (in + c.Hidden + 2)
		in = directions * c.Hidden
	}
	return n + c.Classes*(in+1)
}

// LSTMClassifier gives logits (B,Classes) for sequences of ids (B,T), such as IDs of words or
// tokens: an embedding, an LSTM, and a linear layer over the last layer's state behind the last step,
// of both directions side by side. Names of parameters are embedding.weight, those of LSTM "lstm",
// fc.weight and fc.bias. A GPU cannot take this model.
func LSTMClassifier(ids *gorgonia.Node, cfg LSTMClassifierConfig) *gorgonia.Node {
	want("LSTMClassifier", ids, 2, "B,T")
	if cfg.Vocabulary < 1 || cfg.Width < 1 || cfg.Hidden < 1 || cfg.Classes < 1 {
		panic(fmt.Sprintf("nn: LSTMClassifier: vocabulary %d, width %d, hidden %d, %d classes, want at least 1 of each", cfg.Vocabulary, cfg.Width, cfg.Hidden, cfg.Classes))
	}
	drop := func(x *gorgonia.Node, name string) *gorgonia.Node {
		if cfg.Dropout == 0 {
			return x
		}
		return Dropout(x, name, cfg.Dropout)
	}
	x := drop(Embedding(ids, "embedding", EmbeddingConfig{Rows: cfg.Vocabulary, Dim: cfg.Width}), "embedding.dropout")
	r := newRecurrent(`LSTM "lstm"`, x, "lstm", RecurrentConfig{Hidden: cfg.Hidden, Layers: cfg.Layers, Bidirectional: cfg.Bidirectional, Dropout: cfg.Dropout, Lengths: cfg.Lengths}, false)
	_, last := r.run(x)
	var states []*gorgonia.Node
	for _, s := range last[len(last)-r.directions:] {
		states = append(states, s[0])
	}
	state := Reshape(Concat(-1, states...), ids.Shape()[0], r.directions*cfg.Hidden)
	return Linear(drop(state, "fc.dropout"), "fc", LinearConfig{Out: cfg.Classes})
}
