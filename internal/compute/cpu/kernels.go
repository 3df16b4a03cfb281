package cpu

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/plan"
)

// kernel prepares one op.
func (e *Executor) kernel(o *plan.Op) (kernel, error) {
	switch o.Kind {
	case plan.Generic:
		return e.generic(o)
	case plan.Convert:
		return e.convert(o)
	case plan.Copy:
		return e.copy(o)
	case plan.Add:
		return e.add(o)
	case plan.ReLU:
		return e.relu(o)
	case plan.ReLUGrad:
		return e.reluGrad(o)
	case plan.BiasAdd:
		return e.biasAdd(o)
	case plan.BiasGrad:
		return e.biasGrad(o)
	case plan.Conv2D, plan.ConvBackwardData, plan.ConvBackwardWeight:
		return e.conv(o)
	case plan.BatchNorm:
		return e.batchNorm(o)
	case plan.BatchNormGrad:
		return e.batchNormGrad(o)
	case plan.MaxPool:
		return e.maxPool(o)
	case plan.MaxPoolGrad:
		return e.maxPoolGrad(o)
	case plan.AvgPool:
		return e.avgPool(o)
	case plan.AvgPoolGrad:
		return e.avgPoolGrad(o)
	case plan.GlobalAvgPool:
		return e.globalAvgPool(o)
	case plan.GlobalAvgPoolGrad:
		return e.globalAvgPoolGrad(o)
	case plan.Upsample:
		return e.upsample(o)
	case plan.UpsampleGrad:
		return e.upsampleGrad(o)
	case plan.Linear:
		return e.linear(o)
	case plan.LinearGrad:
		return e.linearGrad(o)
	case plan.Dropout:
		return e.dropout(o)
	case plan.Embedding:
		return e.embedding(o)
	case plan.EmbeddingGrad:
		return e.embeddingGrad(o)
	case plan.Softmax:
		return e.softmax(o)
	case plan.SoftmaxGrad:
		return e.softmaxGrad(o)
	case plan.CrossEntropy:
		return e.crossEntropy(o)
	case plan.CrossEntropyGrad:
		return e.crossEntropyGrad(o)
	case plan.SoftCrossEntropy:
		return e.softCrossEntropy(o)
	case plan.SoftCrossEntropyGrad:
		return e.softCrossEntropyGrad(o)
	case plan.BinaryCrossEntropy:
		return e.binaryCrossEntropy(o)
	case plan.BinaryCrossEntropyGrad:
		return e.binaryCrossEntropyGrad(o)
	case plan.MSE:
		return e.mse(o)
	case plan.MSEGrad:
		return e.mseGrad(o)
	case plan.MatMul:
		return e.matMul(o)
	}
	return kernel{}, fmt.Errorf("there is no kernel for this op")
}
