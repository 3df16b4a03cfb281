package metrics

import (
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Scalar is one number of a step.
type Scalar struct {
	// Tag is such as "train/loss": TensorBoard groups tags by what stands before the slash.
	Tag   string
	Value float64
}

// A Text is a piece of Markdown of a step.
type Text struct{ Tag, Text string }

// Numbers of the fields, as TensorBoard's event.proto, summary.proto and tensor.proto have them.
const (
	eventTime    = 1 // double, seconds since 1970
	eventStep    = 2 // int64
	eventVersion = 3 // string
	eventSummary = 5
	eventSession = 7

	sessionStatus = 1
	sessionStart  = 1 // a status

	summaryValue  = 1
	valueTag      = 1
	valueSimple   = 2 // float
	valueTensor   = 8
	valueMetadata = 9

	metadataPlugin    = 1
	pluginName        = 1
	pluginContent     = 2
	metadataDataClass = 4
	dataClassTensor   = 2

	tensorType    = 1
	tensorFloat   = 1 // a type
	tensorText    = 7 // a type
	tensorShape   = 2
	tensorStrings = 8
	shapeDim      = 2
	dimSize       = 1
)

const (
	fileVersion = "brain.Event:2"

	// Names of TensorBoard's plugins.
	textPlugin    = "text"
	hparamsPlugin = "hparams"
)

// appendEvent begins an event.
func appendEvent(b []byte, now time.Time, step int64) []byte {
	b = appendDouble(b, eventTime, seconds(now))
	if step != 0 {
		b = appendVarint(b, eventStep, uint64(step))
	}
	return b
}

func seconds(t time.Time) float64 { return float64(t.Unix()) + float64(t.Nanosecond())/1e9 }

func appendVersion(b []byte) []byte { return appendString(b, eventVersion, fileVersion) }

func appendStart(b []byte) []byte {
	return appendBytes(b, eventSession, appendVarint(nil, sessionStatus, sessionStart))
}

// appendScalars appends a summary. It allocates nothing but b.
func appendScalars(b []byte, scalars []Scalar) []byte {
	size := 0
	for _, s := range scalars {
		size += protowire.SizeTag(summaryValue) + protowire.SizeBytes(scalarSize(s))
	}
	b = protowire.AppendTag(b, eventSummary, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	for _, s := range scalars {
		b = protowire.AppendTag(b, summaryValue, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(scalarSize(s)))
		b = appendString(b, valueTag, s.Tag)
		b = protowire.AppendTag(b, valueSimple, protowire.Fixed32Type)
		b = protowire.AppendFixed32(b, math.Float32bits(float32(s.Value)))
	}
	return b
}

func scalarSize(s Scalar) int {
	return protowire.SizeTag(valueTag) + protowire.SizeBytes(len(validUTF8(s.Tag))) + protowire.SizeTag(valueSimple) + protowire.SizeFixed32()
}

// appendValue appends a summary of one value.
func appendValue(b, value []byte) []byte {
	return appendBytes(b, eventSummary, appendBytes(nil, summaryValue, value))
}

// textValue is a value of the text plugin: a tensor of one string.
func textValue(tag, text string) []byte {
	tensor := appendVarint(nil, tensorType, tensorText)
	tensor = appendBytes(tensor, tensorShape, appendBytes(nil, shapeDim, appendVarint(nil, dimSize, 1)))
	tensor = appendString(tensor, tensorStrings, text)
	return pluginValue(tag, textPlugin, nil, tensor)
}

// pluginValue is a value that a plugin of TensorBoard reads.
func pluginValue(tag, plugin string, content, tensor []byte) []byte {
	data := appendString(nil, pluginName, plugin)
	if len(content) > 0 {
		data = appendBytes(data, pluginContent, content)
	}
	metadata := appendBytes(nil, metadataPlugin, data)
	metadata = appendVarint(metadata, metadataDataClass, dataClassTensor)
	value := appendString(nil, valueTag, tag)
	value = appendBytes(value, valueTensor, tensor)
	return appendBytes(value, valueMetadata, metadata)
}

func appendVarint(b []byte, field protowire.Number, x uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), x)
}

func appendDouble(b []byte, field protowire.Number, x float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(x))
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), validUTF8(s))
}

// validUTF8 is s with a replacement character for what is not UTF-8, which a reader of protobuf
// refuses with the whole record. A valid s costs no allocation.
func validUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func appendBytes(b []byte, field protowire.Number, x []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), x)
}
