package jsonparts

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Members calls each with the raw name between its quotes and the value of every member of an object. It returns false
// for any other text.
func Members(text []byte, each func(name, value []byte)) bool {
	at := blanks(text, 0)
	if at == len(text) || text[at] != '{' {
		return false
	}
	for at = blanks(text, at+1); at < len(text) && text[at] == '"'; at = blanks(text, at+1) {
		end := textEnd(text, at)
		if end == at+1 {
			return false
		}
		name := text[at+1 : end-1]
		if at = blanks(text, end); at == len(text) || text[at] != ':' {
			return false
		}
		at = blanks(text, at+1)
		end = valueEnd(text, at)
		if end == at {
			return false
		}
		each(name, text[at:end])
		if at = blanks(text, end); at == len(text) || text[at] != ',' {
			break
		}
	}
	return at < len(text) && text[at] == '}'
}

// Elements calls each with every element of a list. It returns false for any other text.
func Elements(text []byte, each func(element []byte)) bool {
	at := blanks(text, 0)
	if at == len(text) || text[at] != '[' {
		return false
	}
	for at = blanks(text, at+1); at < len(text) && text[at] != ']'; at = blanks(text, at+1) {
		end := valueEnd(text, at)
		if end == at {
			return false
		}
		each(text[at:end])
		if at = blanks(text, end); at == len(text) || text[at] != ',' {
			break
		}
	}
	return at < len(text) && text[at] == ']'
}

func blanks(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t') {
		at++
	}
	return at
}

// textEnd returns the end of the string that begins with the quote at a position.
func textEnd(text []byte, at int) int {
	for end := at + 1; ; {
		n := bytes.IndexByte(text[end:], '"')
		if n < 0 {
			return len(text)
		}
		end += n
		escapes := 0
		for text[end-1-escapes] == '\\' { // the quote at the beginning ends it
			escapes++
		}
		if end++; escapes%2 == 0 {
			return end
		}
	}
}

// valueEnd returns the end of the value that begins at a position.
func valueEnd(text []byte, at int) int {
	depth := 0
	for at < len(text) {
		switch text[at] {
		case '"':
			if at = textEnd(text, at); depth == 0 {
				return at
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return at + 1 + depth // a bracket that closes the surrounding value is not part of this one
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return at
			}
		}
		at++
	}
	return at
}

// Text returns the bytes of a string without escapes, false for anything else.
func Text(text []byte) ([]byte, bool) {
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return nil, false
	}
	inner, ascii := text[1:len(text)-1], true
	for _, c := range inner {
		if c < ' ' || c == '\\' || c == '"' {
			return nil, false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return inner, ascii || utf8.Valid(inner)
}

// Number returns a whole number of few digits, false for anything else.
func Number(text []byte) (int64, bool) {
	digits := bytes.TrimPrefix(text, []byte{'-'})
	if len(digits) == 0 || len(digits) > 18 || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}

// Name returns the decoded name of a member.
func Name(written []byte) (name string) {
	if bytes.IndexByte(written, '\\') < 0 && utf8.Valid(written) {
		return string(written)
	}
	quoted := append(append([]byte{'"'}, written...), '"')
	if json.Unmarshal(quoted, &name) != nil {
		return string(written)
	}
	return name
}
