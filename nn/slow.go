package nn

import (
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"gorgonia.org/gorgonia"
)

// slowNumbers is the size, in numbers, of an op's largest argument or result from which on a slow
// op is logged; the time of smaller ones does not matter.
const slowNumbers = 4096

// logSlow logs which of gorgonia's ops a program runs for which there is a faster op of ours, once
// for each kind and graph.
func logSlow(p *plan.Plan, g *gorgonia.ExprGraph) {
	logged := op.RegistryOf(g).Slow
	for _, o := range p.Ops {
		if o.Kind != plan.Generic {
			continue
		}
		kind, instead := faster(o.Attr)
		if kind == "" || logged[kind] || largest(o) < slowNumbers {
			continue
		}
		logged[kind] = true
		joblog.Process().Info("an op has no compiled kernel; gorgonia runs it, at its own speed", "op", kind, "use", instead)
	}
}

// faster says what to use in place of one of gorgonia's ops; "" if there is nothing.
func faster(o gorgonia.Op) (kind, instead string) {
	switch fmt.Sprintf("%T", o) {
	case "gorgonia.im2colOp", "gorgonia.col2imOp":
		return "gorgonia.Conv2d with a dilation, or Im2Col", "nn.Conv2D, or gorgonia.Conv2d without a dilation"
	case "*gorgonia.maxPoolOp", "*gorgonia.maxPoolDiffOp":
		return "gorgonia.MaxPool2D with a pad of more than half of the kernel, or windows of more than 256 elements", "nn.MaxPool2D"
	case "*gorgonia.GroupNormOp":
		return "gorgonia.GroupNorm", "nn.GroupNorm"
	case "*gorgonia.byIndicesOp":
		return "gorgonia.ByIndices", "nn.Embedding"
	case "gorgonia.elemBinOp":
		if strings.HasPrefix(fmt.Sprint(o), "≥ ") || strings.HasPrefix(fmt.Sprint(o), ">= ") {
			return "gorgonia.Rectify or LeakyRelu", "nn.ReLU, whose gradient at 0 is 0 in place of 1"
		}
	case "*gorgonia.repeatOp":
		return "a broadcast of gorgonia's", "nn.Add or nn.Mul, which broadcast, the bias of nn.Linear or nn.Conv2D, or nn.BatchNorm2D"
	}
	return "", ""
}

// largest is the size of the largest argument or result of an op.
func largest(o *plan.Op) int {
	n := 0
	for _, v := range o.In {
		n = max(n, v.Len())
	}
	for _, v := range o.Out {
		n = max(n, v.Len())
	}
	return n
}
