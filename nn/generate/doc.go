// Package generate continues a text by a language model, token by token.
//
// A Decoder runs the model: it is given tokens and gives the logits of the next one, and computes
// each position once. A Chooser chooses the next token from logits. A Text turns the bytes of tokens
// into text as they come, since a token may end within a character.
//
//	decoder, err := generate.NewDecoder(generate.DecoderConfig{Share: prog, Layers: 6, Positions: 256, Build: build})
//	chooser, err := generate.NewChooser(generate.Sampling{Temperature: 0.8, TopP: 0.95, Seed: 1})
//	logits, err := decoder.Add(ctx, prompt...)
//	for range 500 {
//		token, err := chooser.Next(logits)
//		fmt.Print(text.Add(bytesOf(token)))
//		logits, err = decoder.Add(ctx, token)
//	}
//
// The same model, prompt and seed give the same tokens on any number of threads.
package generate
