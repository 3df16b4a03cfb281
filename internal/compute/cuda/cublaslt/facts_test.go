package cublaslt

import (
	"errors"
	"fmt"
)

// A Fact is something of the library that its documentation leaves open or says of some versions
// alone. Otherwise says what is done if it is not so. A program on a machine with a GPU can find
// them all out.
type Fact struct {
	Name  string
	Holds string // the statement

	// Otherwise is what is done where it does not hold.
	Otherwise string

	// Check finds out. detail says what was seen, in either case; err that nothing was found
	// out.
	Check func(h *Handle) (holds bool, detail string, err error)
}

// Facts lists them.
func Facts() []Fact {
	bias := Linear(512, 512, 10, BFloat16)
	single := bias
	single.BiasType = Float32
	relu := bias
	relu.ReLU = true
	gradient := LinearGradWeight(512, 512, 10, BFloat16, BFloat16)
	gradient.BiasGrad = true
	wide := LinearGradWeight(512, 512, 10, BFloat16, Float32)
	both := wide
	both.BiasGrad = true
	return []Fact{
		{"bias", "a bfloat16 product adds a bfloat16 bias, 10 columns wide", "a kernel adds the bias", offered(bias)},
		{"bias in float32", "a bfloat16 product adds a float32 bias", "the bias is converted to bfloat16", offered(single)},
		{"bias and relu", "a bfloat16 product adds a bias and takes ReLU", "a kernel takes ReLU", offered(relu)},
		{"weight gradient in float32", "bfloat16 operands give a float32 dW", "dW is bfloat16 and is converted", offered(wide)},
		{"bias gradient", "the product for a bfloat16 dW gives db too", "a kernel sums db", offered(gradient)},
		{"bias gradient in float32", "the product for a float32 dW gives a float32 db too", "a kernel sums db", offered(both)},
	}
}

// offered makes a check of whether there are plans.
func offered(m Matmul) func(*Handle) (bool, string, error) {
	return func(h *Handle) (bool, string, error) {
		plans, err := h.Plans(m)
		if errors.Is(err, ErrNotSupported) {
			return false, err.Error(), nil
		}
		if err != nil {
			return false, "", err
		}
		detail := fmt.Sprintf("%d algorithms, the first %s", len(plans), plans[0].Engine())
		for _, p := range plans {
			err = errors.Join(err, p.Close())
		}
		return true, detail, err
	}
}

// Constants are the values of the vendor's headers that this package uses, by their names there. A
// machine with the headers can compare.
func Constants() map[string]int64 {
	all := map[string]int64{
		"CUDA_R_32F": int64(Float32), "CUDA_R_16F": int64(Float16), "CUDA_R_16BF": int64(BFloat16),
		"CUBLASLT_MATMUL_DESC_TRANSA": descTransA, "CUBLASLT_MATMUL_DESC_TRANSB": descTransB, "CUBLASLT_MATMUL_DESC_EPILOGUE": descEpilogue,
		"CUBLASLT_MATMUL_DESC_BIAS_POINTER": descBiasPointer, "CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE": descBiasDataType,
		"CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES": preferenceMaxWorkspace, "CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK": preferenceReductionSchemes,
		"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES": preferenceAlignmentA, "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES": preferenceAlignmentB,
		"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES": preferenceAlignmentC, "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES": preferenceAlignmentD,
		"CUBLASLT_EPILOGUE_DEFAULT": epilogueDefault, "CUBLASLT_EPILOGUE_RELU": epilogueReLU, "CUBLASLT_EPILOGUE_BIAS": epilogueBias,
		"CUBLASLT_EPILOGUE_RELU_BIAS": epilogueReLUBias, "CUBLASLT_EPILOGUE_BGRADB": epilogueBiasGradB,
		"CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE": reductionComputeType, "CUBLAS_COMPUTE_32F": compute32F,
		"CUBLAS_COMPUTE_32F_FAST_TF32": compute32FFastTF32, "CUBLASLT_ALGO_CONFIG_ID": algoConfigID, "CUBLASLT_ALGO_CONFIG_TILE_ID": algoConfigTile,
		"CUBLASLT_ALGO_CONFIG_SPLITK_NUM": algoConfigSplitK, "CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME": algoConfigReduction,
		"CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING": algoConfigSwizzle, "CUBLASLT_ALGO_CONFIG_STAGES_ID": algoConfigStages,
	}
	for value, name := range statusNames {
		all[name] = int64(value)
	}
	return all
}
