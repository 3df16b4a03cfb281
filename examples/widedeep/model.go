package main

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
)

const (
	// width is how many numbers an embedding has.
	width     = 16
	deepTable = "embedding/deep"
	// wideTable has one number for each value: the linear part.
	wideTable = "embedding/wide"
)

// model is a wide and deep network (Cheng and others, 2016): logit = MLP(dense, embeddings) + sum
// of the wide rows. The rows that a batch touches come from the store; in the graph they are leaves
// whose gradients go back.
type model struct {
	batch   int
	program *nn.Program
	logits  *gorgonia.Node
	// dense is the program's input: (batch, 13).
	dense  []float32
	labels nn.LabelInput
	// deep and wide are rows that were looked up, with their gradients: (batch, 26·width),
	// (batch, 26).
	deep, wide nn.Param
	// shared are the parameters of the MLP.
	shared []nn.Param
	// ids are the values of the batch: (batch, 26).
	ids []int64
}

// graph builds the network. Its logits are (batch, 2): not clicked, clicked.
func graph(batch int) (loss, logits *gorgonia.Node) {
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 1})
	dense, labels := nn.Input(g, "dense", batch, data.CriteoDense), nn.Labels(g, "labels", batch)
	leaf := func(name string, columns int) *gorgonia.Node {
		return gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(batch, columns), gorgonia.WithName(name),
			gorgonia.WithValue(tensor.New(tensor.WithShape(batch, columns), tensor.Of(tensor.Float32))))
	}
	deep, wide := leaf(deepTable, data.CriteoCategorical*width), leaf(wideTable, data.CriteoCategorical)
	x := nn.Add(
		nn.Linear(dense, "dense", nn.LinearConfig{Out: 64}),
		nn.Linear(deep, "deep", nn.LinearConfig{Out: 64}))
	mlp := nn.MLP(nn.ReLU(x), nn.MLPConfig{Hidden: []int{32}, Classes: 2, Prefix: "mlp."})
	logits = nn.Add(mlp, nn.Linear(wide, "wide", nn.LinearConfig{Out: 2}))
	return nn.SoftmaxCrossEntropy(logits, labels), logits
}

func newModel(batch int) (*model, error) {
	loss, logits := graph(batch)
	program, err := nn.Compile(loss, nn.Config{Outputs: gorgonia.Nodes{logits}})
	if err != nil {
		return nil, err
	}
	m := &model{batch: batch, program: program, logits: logits, ids: make([]int64, batch*data.CriteoCategorical)}
	if m.dense, err = program.Input("dense"); err != nil {
		return nil, err
	}
	if m.labels, err = program.Labels("labels"); err != nil {
		return nil, err
	}
	for _, p := range program.Params() {
		switch p.Name {
		case deepTable:
			m.deep = p
		case wideTable:
			m.wide = p
		default:
			m.shared = append(m.shared, p)
		}
	}
	return m, nil
}

// init gives the store the tables, of so many rows or open for all, and the network's weights. Rows
// of the deep table begin with small numbers: those of zeros would all stay alike.
func (m *model) init(ctx context.Context, kv kvstore.Store, buckets int64) error {
	small := kvstore.Initializer{Name: "uniform", Low: -0.05, High: 0.05, Seed: 1}
	if err := kv.InitTable(ctx, deepTable, kvstore.Table{Rows: buckets, RowLen: width, Initializer: small}); err != nil {
		return err
	}
	if err := kv.InitTable(ctx, wideTable, kvstore.Table{Rows: buckets, RowLen: 1}); err != nil {
		return err
	}
	for _, p := range m.shared {
		if err := kv.Init(ctx, p.Name, p.Value); err != nil {
			return err
		}
	}
	return nil
}

// pull brings the network's weights from the store: those of this moment, for a worker that has
// joined.
func (m *model) pull(ctx context.Context, kv kvstore.Store) error {
	for _, p := range m.shared {
		if err := kv.Pull(ctx, p.Name, p.Value); err != nil {
			return err
		}
	}
	return nil
}

// fill reads rows into the inputs, a whole batch of them or fewer, pulls what they look up, and
// returns their labels.
func (m *model) fill(ctx context.Context, kv kvstore.Store, clicks *data.Clicks, rows []int) (labels []int32, err error) {
	labels = make([]int32, len(rows))
	if err := clicks.Read(ctx, rows, m.dense, m.ids, labels); err != nil {
		return nil, err
	}
	m.labels.Set(labels)
	if err := m.program.SetExamples(len(rows)); err != nil {
		return nil, err
	}
	values := len(rows) * data.CriteoCategorical
	if err := kv.PullRows(ctx, deepTable, m.ids[:values], m.deep.Value[:values*width]); err != nil {
		return nil, err
	}
	return labels, kv.PullRows(ctx, wideTable, m.ids[:values], m.wide.Value[:values])
}

// step trains on the rows that fill brought. Without any it pushes zeros, as the rounds need every
// worker.
func (m *model) step(ctx context.Context, by kvstore.Pusher, rows int) error {
	// Gradients are sums over the rows; the servers divide by the rows of all workers.
	m.program.SetGradScale(float32(rows))
	if err := m.program.Step(ctx, nil); err != nil {
		return err
	}
	values := rows * data.CriteoCategorical
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range m.shared {
		group.Go(func() error {
			return by.PushPull(ctx, p.Name, [][]float32{p.Gradient}, [][]float32{p.Value})
		})
	}
	group.Go(func() error { return by.PushRows(ctx, deepTable, m.ids[:values], m.deep.Gradient[:values*width]) })
	group.Go(func() error { return by.PushRows(ctx, wideTable, m.ids[:values], m.wide.Gradient[:values]) })
	return group.Wait()
}

// evaluate returns the mean loss and the area under the ROC curve over the rows from first on.
func (m *model) evaluate(ctx context.Context, kv kvstore.Store, clicks *data.Clicks, first int) (loss, area float64, err error) {
	type scored struct {
		margin  float32
		clicked bool
	}
	var all []scored
	batches := 0
	for ; first+m.batch <= clicks.Len(); first += m.batch {
		rows := make([]int, m.batch)
		for b := range rows {
			rows[b] = first + b
		}
		labels, err := m.fill(ctx, kv, clicks, rows)
		if err != nil {
			return 0, 0, err
		}
		if err := m.program.Forward(ctx); err != nil {
			return 0, 0, err
		}
		logits, err := m.program.Output(m.logits)
		if err != nil {
			return 0, 0, err
		}
		for b, label := range labels {
			all = append(all, scored{logits[2*b+1] - logits[2*b], label == 1})
		}
		loss += m.program.Loss()
		batches++
	}
	// The area is the share of pairs (clicked, not clicked) in the right order.
	slices.SortFunc(all, func(a, b scored) int { return cmp.Compare(a.margin, b.margin) })
	var negatives, positives, ordered float64
	for _, s := range all {
		if s.clicked {
			positives++
			ordered += negatives
		} else {
			negatives++
		}
	}
	return loss / float64(max(batches, 1)), ordered / max(positives*negatives, 1), nil
}
