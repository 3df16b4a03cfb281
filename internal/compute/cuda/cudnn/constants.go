package cudnn

// The values below are those of the vendor's headers of version 9. They only ever grow by
// additions: an attribute keeps its number. The names are the vendor's, so that an error, a trace
// and the documentation speak of the same thing.

// attribute is a cudnnBackendAttributeName_t.
type attribute int32

const (
	attrPointwiseMode         attribute = 0
	attrPointwiseMathPrec     attribute = 1
	attrPointwiseNaN          attribute = 2
	attrPointwiseLower        attribute = 3
	attrPointwiseUpper        attribute = 4
	attrPointwiseSlope        attribute = 5
	attrConvCompType          attribute = 100
	attrConvMode              attribute = 101
	attrConvDilations         attribute = 102
	attrConvFilterStrides     attribute = 103
	attrConvPostPaddings      attribute = 104
	attrConvPrePaddings       attribute = 105
	attrConvSpatialDims       attribute = 106
	attrHeurMode              attribute = 200
	attrHeurOperationGraph    attribute = 201
	attrHeurResults           attribute = 202
	attrConfigEngine          attribute = 300
	attrConfigKnobChoices     attribute = 302
	attrConfigWorkspace       attribute = 303
	attrPlanHandle            attribute = 400
	attrPlanEngineConfig      attribute = 401
	attrPlanWorkspaceSize     attribute = 402
	attrKnobType              attribute = 600
	attrKnobValue             attribute = 601
	attrForwardAlpha          attribute = 700
	attrForwardBeta           attribute = 701
	attrForwardConvDesc       attribute = 702
	attrForwardW              attribute = 703
	attrForwardX              attribute = 704
	attrForwardY              attribute = 705
	attrBwdDataAlpha          attribute = 706
	attrBwdDataBeta           attribute = 707
	attrBwdDataConvDesc       attribute = 708
	attrBwdDataW              attribute = 709
	attrBwdDataDX             attribute = 710
	attrBwdDataDY             attribute = 711
	attrBwdFilterAlpha        attribute = 712
	attrBwdFilterBeta         attribute = 713
	attrBwdFilterConvDesc     attribute = 714
	attrBwdFilterDW           attribute = 715
	attrBwdFilterX            attribute = 716
	attrBwdFilterDY           attribute = 717
	attrPointwiseDescriptor   attribute = 750
	attrPointwiseX            attribute = 751
	attrPointwiseB            attribute = 752
	attrPointwiseY            attribute = 753
	attrPointwiseAlpha1       attribute = 754
	attrPointwiseAlpha2       attribute = 755
	attrPointwiseDX           attribute = 756
	attrPointwiseDY           attribute = 757
	attrGraphHandle           attribute = 800
	attrGraphOps              attribute = 801
	attrTensorByteAlignment   attribute = 900
	attrTensorDataType        attribute = 901
	attrTensorDimensions      attribute = 902
	attrTensorStrides         attribute = 903
	attrTensorUniqueID        attribute = 906
	attrTensorIsVirtual       attribute = 907
	attrTensorIsByValue       attribute = 908
	attrPackUniqueIDs         attribute = 1000
	attrPackDataPointers      attribute = 1001
	attrPackWorkspace         attribute = 1003
	attrEngineGraph           attribute = 1300
	attrEngineGlobalIndex     attribute = 1301
	attrEngineNumericalNote   attribute = 1303
	attrEngineBehaviorNote    attribute = 1305
	attrNormFwdMode           attribute = 2000
	attrNormFwdPhase          attribute = 2001
	attrNormFwdX              attribute = 2002
	attrNormFwdMean           attribute = 2003
	attrNormFwdInvVariance    attribute = 2004
	attrNormFwdScale          attribute = 2005
	attrNormFwdBias           attribute = 2006
	attrNormFwdEpsilon        attribute = 2007
	attrNormFwdExpAvgFactor   attribute = 2008
	attrNormFwdInRunningMean  attribute = 2009
	attrNormFwdInRunningVar   attribute = 2010
	attrNormFwdOutRunningMean attribute = 2011
	attrNormFwdOutRunningVar  attribute = 2012
	attrNormFwdY              attribute = 2013
	attrNormBwdMode           attribute = 2100
	attrNormBwdX              attribute = 2101
	attrNormBwdMean           attribute = 2102
	attrNormBwdInvVariance    attribute = 2103
	attrNormBwdDY             attribute = 2104
	attrNormBwdScale          attribute = 2105
	attrNormBwdDScale         attribute = 2107
	attrNormBwdDBias          attribute = 2108
	attrNormBwdDX             attribute = 2109
)

var attributeNames = map[attribute]string{
	attrPointwiseMode:         "CUDNN_ATTR_POINTWISE_MODE",
	attrPointwiseMathPrec:     "CUDNN_ATTR_POINTWISE_MATH_PREC",
	attrPointwiseNaN:          "CUDNN_ATTR_POINTWISE_NAN_PROPAGATION",
	attrPointwiseLower:        "CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP",
	attrPointwiseUpper:        "CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP",
	attrPointwiseSlope:        "CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE",
	attrConvCompType:          "CUDNN_ATTR_CONVOLUTION_COMP_TYPE",
	attrConvMode:              "CUDNN_ATTR_CONVOLUTION_CONV_MODE",
	attrConvDilations:         "CUDNN_ATTR_CONVOLUTION_DILATIONS",
	attrConvFilterStrides:     "CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES",
	attrConvPostPaddings:      "CUDNN_ATTR_CONVOLUTION_POST_PADDINGS",
	attrConvPrePaddings:       "CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS",
	attrConvSpatialDims:       "CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS",
	attrHeurMode:              "CUDNN_ATTR_ENGINEHEUR_MODE",
	attrHeurOperationGraph:    "CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH",
	attrHeurResults:           "CUDNN_ATTR_ENGINEHEUR_RESULTS",
	attrConfigEngine:          "CUDNN_ATTR_ENGINECFG_ENGINE",
	attrConfigKnobChoices:     "CUDNN_ATTR_ENGINECFG_KNOB_CHOICES",
	attrConfigWorkspace:       "CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE",
	attrPlanHandle:            "CUDNN_ATTR_EXECUTION_PLAN_HANDLE",
	attrPlanEngineConfig:      "CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG",
	attrPlanWorkspaceSize:     "CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE",
	attrKnobType:              "CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE",
	attrKnobValue:             "CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE",
	attrForwardAlpha:          "CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA",
	attrForwardBeta:           "CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA",
	attrForwardConvDesc:       "CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC",
	attrForwardW:              "CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W",
	attrForwardX:              "CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X",
	attrForwardY:              "CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y",
	attrBwdDataAlpha:          "CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA",
	attrBwdDataBeta:           "CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA",
	attrBwdDataConvDesc:       "CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC",
	attrBwdDataW:              "CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W",
	attrBwdDataDX:             "CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX",
	attrBwdDataDY:             "CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY",
	attrBwdFilterAlpha:        "CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA",
	attrBwdFilterBeta:         "CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA",
	attrBwdFilterConvDesc:     "CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC",
	attrBwdFilterDW:           "CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW",
	attrBwdFilterX:            "CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X",
	attrBwdFilterDY:           "CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY",
	attrPointwiseDescriptor:   "CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR",
	attrPointwiseX:            "CUDNN_ATTR_OPERATION_POINTWISE_XDESC",
	attrPointwiseB:            "CUDNN_ATTR_OPERATION_POINTWISE_BDESC",
	attrPointwiseY:            "CUDNN_ATTR_OPERATION_POINTWISE_YDESC",
	attrPointwiseAlpha1:       "CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1",
	attrPointwiseAlpha2:       "CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2",
	attrPointwiseDX:           "CUDNN_ATTR_OPERATION_POINTWISE_DXDESC",
	attrPointwiseDY:           "CUDNN_ATTR_OPERATION_POINTWISE_DYDESC",
	attrGraphHandle:           "CUDNN_ATTR_OPERATIONGRAPH_HANDLE",
	attrGraphOps:              "CUDNN_ATTR_OPERATIONGRAPH_OPS",
	attrTensorByteAlignment:   "CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT",
	attrTensorDataType:        "CUDNN_ATTR_TENSOR_DATA_TYPE",
	attrTensorDimensions:      "CUDNN_ATTR_TENSOR_DIMENSIONS",
	attrTensorStrides:         "CUDNN_ATTR_TENSOR_STRIDES",
	attrTensorUniqueID:        "CUDNN_ATTR_TENSOR_UNIQUE_ID",
	attrTensorIsVirtual:       "CUDNN_ATTR_TENSOR_IS_VIRTUAL",
	attrTensorIsByValue:       "CUDNN_ATTR_TENSOR_IS_BY_VALUE",
	attrPackUniqueIDs:         "CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS",
	attrPackDataPointers:      "CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS",
	attrPackWorkspace:         "CUDNN_ATTR_VARIANT_PACK_WORKSPACE",
	attrEngineGraph:           "CUDNN_ATTR_ENGINE_OPERATION_GRAPH",
	attrEngineGlobalIndex:     "CUDNN_ATTR_ENGINE_GLOBAL_INDEX",
	attrEngineNumericalNote:   "CUDNN_ATTR_ENGINE_NUMERICAL_NOTE",
	attrEngineBehaviorNote:    "CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE",
	attrNormFwdMode:           "CUDNN_ATTR_OPERATION_NORM_FWD_MODE",
	attrNormFwdPhase:          "CUDNN_ATTR_OPERATION_NORM_FWD_PHASE",
	attrNormFwdX:              "CUDNN_ATTR_OPERATION_NORM_FWD_XDESC",
	attrNormFwdMean:           "CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC",
	attrNormFwdInvVariance:    "CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC",
	attrNormFwdScale:          "CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC",
	attrNormFwdBias:           "CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC",
	attrNormFwdEpsilon:        "CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC",
	attrNormFwdExpAvgFactor:   "CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC",
	attrNormFwdInRunningMean:  "CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC",
	attrNormFwdInRunningVar:   "CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC",
	attrNormFwdOutRunningMean: "CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC",
	attrNormFwdOutRunningVar:  "CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC",
	attrNormFwdY:              "CUDNN_ATTR_OPERATION_NORM_FWD_YDESC",
	attrNormBwdMode:           "CUDNN_ATTR_OPERATION_NORM_BWD_MODE",
	attrNormBwdX:              "CUDNN_ATTR_OPERATION_NORM_BWD_XDESC",
	attrNormBwdMean:           "CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC",
	attrNormBwdInvVariance:    "CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC",
	attrNormBwdDY:             "CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC",
	attrNormBwdScale:          "CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC",
	attrNormBwdDScale:         "CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC",
	attrNormBwdDBias:          "CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC",
	attrNormBwdDX:             "CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC",
}

// descriptorType is a cudnnBackendDescriptorType_t.
type descriptorType int32

const (
	pointwiseDescriptor      descriptorType = 0
	convolutionDescriptor    descriptorType = 1
	engineDescriptor         descriptorType = 2
	configDescriptor         descriptorType = 3
	heuristicsDescriptor     descriptorType = 4
	planDescriptor           descriptorType = 5
	knobChoiceDescriptor     descriptorType = 7
	forwardDescriptor        descriptorType = 10
	backwardFilterDescriptor descriptorType = 11
	backwardDataDescriptor   descriptorType = 12
	pointwiseOpDescriptor    descriptorType = 13
	graphDescriptor          descriptorType = 15
	packDescriptor           descriptorType = 16
	tensorDescriptor         descriptorType = 17
	normForwardDescriptor    descriptorType = 29
	normBackwardDescriptor   descriptorType = 30
)

var descriptorNames = map[descriptorType]string{
	pointwiseDescriptor:      "CUDNN_BACKEND_POINTWISE_DESCRIPTOR",
	convolutionDescriptor:    "CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR",
	engineDescriptor:         "CUDNN_BACKEND_ENGINE_DESCRIPTOR",
	configDescriptor:         "CUDNN_BACKEND_ENGINECFG_DESCRIPTOR",
	heuristicsDescriptor:     "CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR",
	planDescriptor:           "CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR",
	knobChoiceDescriptor:     "CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR",
	forwardDescriptor:        "CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR",
	backwardFilterDescriptor: "CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR",
	backwardDataDescriptor:   "CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR",
	pointwiseOpDescriptor:    "CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR",
	graphDescriptor:          "CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR",
	packDescriptor:           "CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR",
	tensorDescriptor:         "CUDNN_BACKEND_TENSOR_DESCRIPTOR",
	normForwardDescriptor:    "CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR",
	normBackwardDescriptor:   "CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR",
}

// attributeType is a cudnnBackendAttributeType_t.
type attributeType int32

const (
	typeHandle          attributeType = 0
	typeDataType        attributeType = 1
	typeBoolean         attributeType = 2
	typeInt64           attributeType = 3
	typeFloat           attributeType = 4
	typeDouble          attributeType = 5
	typePointer         attributeType = 6
	typeConvolutionMode attributeType = 7
	typeHeurMode        attributeType = 8
	typeKnobType        attributeType = 9
	typeNaN             attributeType = 10
	typeNumericalNote   attributeType = 11
	typePointwiseMode   attributeType = 14
	typeDescriptor      attributeType = 15
	typeBehaviorNote    attributeType = 19
	typeNormMode        attributeType = 27
	typeNormPhase       attributeType = 28
)

var attributeTypeNames = map[attributeType]string{
	typeHandle:          "CUDNN_TYPE_HANDLE",
	typeDataType:        "CUDNN_TYPE_DATA_TYPE",
	typeBoolean:         "CUDNN_TYPE_BOOLEAN",
	typeInt64:           "CUDNN_TYPE_INT64",
	typeFloat:           "CUDNN_TYPE_FLOAT",
	typeDouble:          "CUDNN_TYPE_DOUBLE",
	typePointer:         "CUDNN_TYPE_VOID_PTR",
	typeConvolutionMode: "CUDNN_TYPE_CONVOLUTION_MODE",
	typeHeurMode:        "CUDNN_TYPE_HEUR_MODE",
	typeKnobType:        "CUDNN_TYPE_KNOB_TYPE",
	typeNaN:             "CUDNN_TYPE_NAN_PROPOGATION",
	typeNumericalNote:   "CUDNN_TYPE_NUMERICAL_NOTE",
	typePointwiseMode:   "CUDNN_TYPE_POINTWISE_MODE",
	typeDescriptor:      "CUDNN_TYPE_BACKEND_DESCRIPTOR",
	typeBehaviorNote:    "CUDNN_TYPE_BEHAVIOR_NOTE",
	typeNormMode:        "CUDNN_TYPE_NORM_MODE",
	typeNormPhase:       "CUDNN_TYPE_NORM_FWD_PHASE",
}
