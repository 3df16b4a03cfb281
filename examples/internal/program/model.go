package program

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
)

// WithoutDecay takes weight decay off biases and batch normalisations: all that is one number for
// each channel.
func WithoutDecay(params []nn.Param) (factors []optim.Factor) {
	for _, p := range params {
		if len(p.Shape) == 1 {
			factors = append(factors, optim.Factor{Keys: p.Name, Factor: 0})
		}
	}
	return factors
}

// MemoryPlan tells what the programs of a step take, and where.
func MemoryPlan(programs []*nn.Program, devices []string) string {
	m, mb := programs[0].Memory(), func(n int64) float64 { return float64(n) / 1e6 }
	text := fmt.Sprintf("Memory plan: %.1f MB (parameters %.1f, gradients %.1f, inputs %.1f, arena %.1f; %.1f without sharing)",
		mb(m.Total()), mb(m.Parameters), mb(m.Gradients), mb(m.Inputs), mb(m.Arena), mb(m.Total()-m.Arena+m.Unplaced))
	if len(programs) > 1 {
		return fmt.Sprintf("%s on each of %s", text, strings.Join(devices, ", "))
	}
	return text + " on " + devices[0]
}

// Hash is the SHA-256 of all parameters in order: two runs that did the same have the same.
func Hash(params []nn.Param) []byte {
	h := sha256.New()
	for _, p := range params {
		bytes := make([]byte, 0, 4*len(p.Value))
		for _, v := range p.Value {
			bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(v))
		}
		h.Write(bytes)
	}
	return h.Sum(nil)
}
