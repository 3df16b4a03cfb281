package cublaslt

// Values of the vendor's enumerations, under names close to theirs.
const (
	// of cublasLtMatmulDescAttributes_t
	descTransA       = 3
	descTransB       = 4
	descEpilogue     = 7
	descBiasPointer  = 8
	descBiasDataType = 26

	// of cublasLtMatmulPreferenceAttributes_t
	preferenceMaxWorkspace     = 1
	preferenceReductionSchemes = 3
	preferenceAlignmentA       = 5
	preferenceAlignmentB       = 6
	preferenceAlignmentC       = 7
	preferenceAlignmentD       = 8

	// of cublasLtEpilogue_t
	epilogueDefault   = 1
	epilogueReLU      = 2
	epilogueBias      = 4
	epilogueReLUBias  = 6
	epilogueBiasGradB = 512

	// of cublasLtReductionScheme_t: partial sums are added as float32, not as the result's type
	reductionComputeType = 2

	// of cublasComputeType_t
	compute32F         = 68
	compute32FFastTF32 = 77

	// of cublasLtMatmulAlgoConfigAttributes_t
	algoConfigID        = 0
	algoConfigTile      = 1
	algoConfigSplitK    = 2
	algoConfigReduction = 3
	algoConfigSwizzle   = 4
	algoConfigStages    = 6
)

var statusNames = map[Status]string{
	0:  "CUBLAS_STATUS_SUCCESS",
	1:  "CUBLAS_STATUS_NOT_INITIALIZED",
	3:  "CUBLAS_STATUS_ALLOC_FAILED",
	7:  "CUBLAS_STATUS_INVALID_VALUE",
	8:  "CUBLAS_STATUS_ARCH_MISMATCH",
	11: "CUBLAS_STATUS_MAPPING_ERROR",
	13: "CUBLAS_STATUS_EXECUTION_FAILED",
	14: "CUBLAS_STATUS_INTERNAL_ERROR",
	15: "CUBLAS_STATUS_NOT_SUPPORTED",
	16: "CUBLAS_STATUS_LICENSE_ERROR",
}
