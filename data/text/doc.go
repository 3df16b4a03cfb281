// Package text makes tokens of text and text of tokens, for language models.
//
// A Tokenizer has a vocabulary: each token is some bytes, and has a number. Bytes has the 256 bytes
// as tokens. BPE is the byte-level byte pair encoding of GPT-2, and of Llama 3 and GPT-4: it cuts a
// text into pieces, such as words with the space in front of them, starts from the bytes of a
// piece, and joins again and again the two neighbours that stand first in a list of merges. Open
// reads one from the files that such a model comes with:
//
//	tokenizer, err := text.Open("gpt2") // tokenizer.json, or vocab.json and merges.txt
//	tokens := tokenizer.Append(nil, "Hello world")
//	s, err := text.Decode(tokenizer, tokens)
//
// Decode gives back the bytes that were encoded, whatever they are.
//
// A special token, such as <|endoftext|> between documents, is one that no text is meant to make:
// what a user types must not end a document. So Append finds none, and takes <|endoftext|> for
// thirteen characters as any others. Only a tokenizer that Allow gives finds those that it names.
// No token is added in front of a text or behind it, whatever a file says: a program that wants one
// appends its number, which Special gives.
//
// A token may end within a character. A Decoder takes tokens one after the other, as a model
// writes them, and gives only characters that are whole.
//
// Copy encodes a text of any length, such as into a file of tokens (data.CreateTokens), which
// data.OpenTokens gives to training as windows. NewWindows has the windows of tokens in memory, and
// Documents numbers the documents in a window for attention that is to stay within them.
//
// Files of tokenizers are not trusted. One that is damaged, or of a kind that would give other
// tokens than its own library does, is an error that names the file, the line, what is there and
// what was wanted.
package text
