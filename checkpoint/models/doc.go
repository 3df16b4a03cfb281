// Package models knows how files of other frameworks name and lay out the parameters of the models
// that package nn has, and their config.json.
//
// A Model is known by the names of its parameters: GPT-2 by transformer.wte.weight, for example. It
// has Layouts, such as "hf", that of Hugging Face's transformers. A layout is one table, which is
// used both ways: Sources says which tensors of a file make a parameter, for reading, and Target
// which tensors a parameter becomes, for writing. A Form says how the numbers are arranged there.
//
//	model := models.Of(names)             // of the program's parameters; nil: not known
//	layout, err := model.Layout("hf")
//	there, ok := layout.Target("transformer.h.0.attn.c_proj.weight") // transposed, with no word in shapes
//
// ReadConfig reads a config.json, and refuses by name what package nn's models cannot do. The
// package reads no files: package checkpoint does, with Import and ExportAs.
package models
