package plan

import (
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
)

// A Kind is what an Op computes. The comment of each lists its In and Out; an entry in brackets may
// be nil: absent as an argument, not wanted as a result. Attributes are those of the op of the same
// name in package op, which is Op.Attr.
type Kind uint8

// The kinds. "relu" stands for Op.ReLU: the result is replaced by max(result, 0).
const (
	Generic  Kind = iota // Attr.Do(In...) → Out[0]
	Convert              // x → the other layout
	Copy                 // x → the same
	Add                  // a, b → a + b, relu
	ReLU                 // x → y
	ReLUGrad             // y, dy → dx
	BiasAdd              // x, b → y, relu
	BiasGrad             // dy → db
	Conv2D               // x, w → y

	// ConvBackwardData is w, dy, [add] → dx, plus add.
	ConvBackwardData

	ConvBackwardWeight // x, dy → dw

	// BatchNorm is x, gamma, beta, [add] → y (plus add, relu or Op.Behind), [mean], [invstd].
	BatchNorm

	// BatchNormGrad is x, gamma, mean, invstd, dy, [y of relu or Op.Behind] → [dx], [dgamma], [dbeta], [dz]. dz
	// is dy behind the relu, only with Request.Residuals.
	BatchNormGrad

	// MaxPool is x → y, [choice]. choice is which element of its window, in bytes.
	MaxPool

	MaxPoolGrad       // choice, dy → dx
	AvgPool           // x → y
	AvgPoolGrad       // dy → dx
	GlobalAvgPool     // x → y
	GlobalAvgPoolGrad // dy → dx
	Upsample          // x → y
	UpsampleGrad      // dy → dx
	Linear            // x, w, [b] → y, relu

	// LinearGrad is x, w, dy → [dx], [dw], [db].
	LinearGrad

	Dropout   // x → y
	Embedding // w, ids → y

	// EmbeddingGrad is ids, dy, [add] → dw, plus add. Add may be another name of dw's memory.
	EmbeddingGrad

	Positions              // x, p, [first positions] → y
	PositionsGrad          // dy → dp
	ClassToken             // x, token → y
	ClassTokenGrad         // dy → [dx], [dtoken]
	Softmax                // x → y, along Attr's axis
	SoftmaxGrad            // y, dy → dx
	CrossEntropy           // x, labels → loss
	CrossEntropyGrad       // x, labels, dloss → dx
	SoftCrossEntropy       // x, t → loss
	SoftCrossEntropyGrad   // x, t, dloss → dx
	BinaryCrossEntropy     // x, t → loss
	BinaryCrossEntropyGrad // x, t, dloss → dx
	MSE                    // x, t → loss
	MSEGrad                // x, t, dloss → dx

	// LinearCrossEntropy is x, w, labels → loss.
	LinearCrossEntropy

	// LinearCrossEntropyGrad is x, w, labels, dloss → [dx], [dw], [loss]. It has the loss where it
	// stands for the forward op, too: then it computes the logits once.
	LinearCrossEntropyGrad

	// MatMul is a, b → a·b, each transposed first if TransA, TransB.
	MatMul

	Activation     // x → y
	ActivationGrad // x or y, dy → dx
	SwiGLU         // gate, up → z

	// SwiGLUGrad is gate, up, dz → [dgate], [dup].
	SwiGLUGrad
	// Attention is q, k, v or one array of all, [lengths], [documents], [bias] → o, [lse]. Which of
	// them there are says Attr.
	Attention

	// AttentionGrad is the arguments of Attention, o, lse, do → [dq], [dk], [dv], or one array of
	// all, and [dbias] if there is a bias.
	AttentionGrad

	// CachedAttention is q, k, v or one array of all, first positions → o.
	CachedAttention

	Rotary // x, or x and first positions → y

	// BatchMatMul is MatMul for each index of the axes before the last two.
	BatchMatMul

	// RowNorm is x, w, [b], [add] → y, [mean], [rstd], [sum]. With add, x + add is normalised, and
	// sum is that.
	RowNorm

	// RowNormGrad is x, w, [mean], rstd, dy, [add] → [dx], [dw], [db]. dx has add in it.
	RowNormGrad

	GroupNorm     // x, w, b → y, [mean], [rstd]
	GroupNormGrad // x, w, mean, rstd, dy → [dx], [dw], [db]

	// Join is pieces → y, whose axis Axis has piece i from At[i] on, and zeros where no piece is.
	Join

	Slice     // x → y
	Permute   // x → y
	Broadcast // a, b → y
	SumTo     // x → y

	// Recurrent is z, w, [b], [h0], [c0], [lengths] → [s], [gates], [kept], [before], [y], [h], [c].
	// Which arguments there are says Attr. There is either s or what it is made of: y (B,T,H), and h
	// and c, (B,1,H) each.
	Recurrent

	// RecurrentGrad is the arguments of Recurrent, gates, kept, before, [ds], [dy], [dh], [dc] → the
	// gradients of z, w and, as far as they are there, b, h0 and c0, each of which may be nil. What
	// there is of ds, dy, dh and dc is all; the others are 0.
	RecurrentGrad

	numKinds
)

var kindNames = [numKinds]string{
	Generic:                "Generic",
	Convert:                "Convert",
	Copy:                   "Copy",
	Add:                    "Add",
	ReLU:                   "ReLU",
	ReLUGrad:               "ReLUGrad",
	BiasAdd:                "BiasAdd",
	BiasGrad:               "BiasGrad",
	Conv2D:                 "Conv2D",
	ConvBackwardData:       "ConvBackwardData",
	ConvBackwardWeight:     "ConvBackwardWeight",
	BatchNorm:              "BatchNorm",
	BatchNormGrad:          "BatchNormGrad",
	MaxPool:                "MaxPool",
	MaxPoolGrad:            "MaxPoolGrad",
	AvgPool:                "AvgPool",
	AvgPoolGrad:            "AvgPoolGrad",
	GlobalAvgPool:          "GlobalAvgPool",
	GlobalAvgPoolGrad:      "GlobalAvgPoolGrad",
	Upsample:               "Upsample",
	UpsampleGrad:           "UpsampleGrad",
	Linear:                 "Linear",
	LinearGrad:             "LinearGrad",
	Dropout:                "Dropout",
	Embedding:              "Embedding",
	EmbeddingGrad:          "EmbeddingGrad",
	Positions:              "Positions",
	PositionsGrad:          "PositionsGrad",
	ClassToken:             "ClassToken",
	ClassTokenGrad:         "ClassTokenGrad",
	Softmax:                "Softmax",
	SoftmaxGrad:            "SoftmaxGrad",
	CrossEntropy:           "CrossEntropy",
	CrossEntropyGrad:       "CrossEntropyGrad",
	SoftCrossEntropy:       "SoftCrossEntropy",
	SoftCrossEntropyGrad:   "SoftCrossEntropyGrad",
	BinaryCrossEntropy:     "BinaryCrossEntropy",
	BinaryCrossEntropyGrad: "BinaryCrossEntropyGrad",
	MSE:                    "MSE",
	MSEGrad:                "MSEGrad",
	LinearCrossEntropy:     "LinearCrossEntropy",
	LinearCrossEntropyGrad: "LinearCrossEntropyGrad",
	MatMul:                 "MatMul",
	Activation:             "Activation",
	ActivationGrad:         "ActivationGrad",
	SwiGLU:                 "SwiGLU",
	SwiGLUGrad:             "SwiGLUGrad",
	Attention:              "Attention",
	AttentionGrad:          "AttentionGrad",
	CachedAttention:        "CachedAttention",
	Rotary:                 "Rotary",
	BatchMatMul:            "BatchMatMul",
	RowNorm:                "RowNorm",
	RowNormGrad:            "RowNormGrad",
	GroupNorm:              "GroupNorm",
	GroupNormGrad:          "GroupNormGrad",
	Join:                   "Join",
	Slice:                  "Slice",
	Permute:                "Permute",
	Broadcast:              "Broadcast",
	SumTo:                  "SumTo",
	Recurrent:              "Recurrent",
	RecurrentGrad:          "RecurrentGrad",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", k)
}

// An Op is one step of a plan.
type Op struct {
	Kind Kind

	// Node is the node it was made for, for messages.
	Node string

	// Attr has the attributes: an op of package op, or the gorgonia op to Do. It is nil for Convert
	// and Copy.
	Attr gorgonia.Op

	In, Out []*Value
	ReLU    bool

	// Behind is the activation that BatchNorm computes behind the sum, in place of the ReLU, and
	// whose gradient BatchNormGrad applies in front: one whose derivative is computed from its
	// result. nil: none.
	Behind *op.Activation

	// Frozen says that BatchNorm or BatchNormGrad uses the running statistics, which stay as they
	// are.
	Frozen bool

	// TransA and TransB are those of MatMul and BatchMatMul.
	TransA, TransB bool

	// Axis and At are those of Join.
	Axis int
	At   []int

	// Apart keeps the result out of its arguments' memory; set by an executor whose kernel
	// cannot write over them, before Place.
	Apart bool

	// Scratch is memory that only this op uses, in bytes; set by the executor before Place.
	Scratch       int64
	ScratchOffset int64
}

func (o *Op) String() string {
	var b strings.Builder
	for i, v := range o.Out {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(v.String())
	}
	fmt.Fprintf(&b, " = %v", o.Kind)
	if o.Kind == Generic {
		fmt.Fprintf(&b, "[%v]", o.Attr)
	}
	if o.ReLU {
		b.WriteString("+ReLU")
	}
	if o.Behind != nil {
		fmt.Fprintf(&b, "+%s", o.Behind.Function)
	}
	if o.Frozen {
		b.WriteString("+frozen")
	}
	b.WriteString("(")
	for i, v := range o.In {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(v.String())
	}
	fmt.Fprintf(&b, ") # %s", o.Node)
	return b.String()
}

// mayWriteOver lists the arguments in whose memory result k may be written, best first. The kernels
// of these kinds read element i of such an argument before they write element i, and later never
// again.
func (o *Op) mayWriteOver(k int) []int {
	switch {
	case o.Apart:
		return nil
	case o.Kind == RowNorm:
		// A row is read before it is written.
		switch {
		case len(o.In) > 3 && (k == 0 || k == 3):
			return []int{0, 3}
		case k == 0:
			return []int{0}
		}
		return nil
	case o.Kind == Recurrent && k == 1:
		// A step's z is read before its gates are written.
		return []int{0}
	case k != 0:
		return nil
	}
	switch o.Kind {
	case RecurrentGrad:
		return []int{o.Attr.(*op.RecurrentGrad).Arguments()}
	case Add, Broadcast:
		return []int{0, 1}
	case ReLU, BiasAdd, Dropout, Softmax, Activation, Rotary, Positions:
		return []int{0}
	case EmbeddingGrad:
		return []int{2}
	case ReLUGrad, ActivationGrad:
		return []int{1, 0}
	case SwiGLU:
		return []int{0, 1}
	case SwiGLUGrad:
		return []int{0, 1, 2}
	case BatchNorm:
		return []int{0, 3}
	case BatchNormGrad:
		return []int{4}
	case ConvBackwardData:
		return []int{2}
	case RowNormGrad:
		return []int{4, 5, 0}
	case GroupNorm:
		return []int{0}
	case GroupNormGrad:
		return []int{4, 0}
	}
	return nil
}
