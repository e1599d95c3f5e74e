package jsonparts

// Valid reports whether a text is one JSON value (RFC 8259), however deep it is. Like encoding/json, it accepts bytes
// in strings that are not UTF-8.
func Valid(text []byte) bool { return scan(text, len(text)) >= 0 }

// scan returns the end of the one JSON value of a text of at most so many levels. Like the functions below, it returns
// the complement of a position, which is negative, if the text is not JSON from there on.
func scan(text []byte, levels int) int {
	var open []byte // the open brackets at this position
	at := blanks(text, 0)
	for {
		if at == len(text) {
			return ^at
		}
		ended := false
		switch c := text[at]; c {
		case '[', '{':
			if len(open) == levels {
				return ^at
			}
			if at = blanks(text, at+1); at < len(text) && text[at] == c+2 { // its other bracket
				at, ended = at+1, true
				break
			}
			open = append(open, c)
			if c == '{' {
				at = name(text, at)
			}
		default:
			at, ended = scalar(text, at), true
		}
		for ended && at >= 0 {
			at = blanks(text, at)
			switch {
			case len(open) == 0:
				if at < len(text) {
					return ^at
				}
				return at
			case at == len(text):
				return ^at
			case text[at] == open[len(open)-1]+2:
				open = open[:len(open)-1]
				at++
			case text[at] == ',':
				ended = false
				if at = blanks(text, at+1); open[len(open)-1] == '{' {
					at = name(text, at)
				}
			default:
				return ^at
			}
		}
		if at < 0 {
			return at
		}
	}
}

// name returns the start of the value of the member whose name begins at a position.
func name(text []byte, at int) int {
	if at = quoted(text, at); at < 0 {
		return at
	}
	if at = blanks(text, at); at == len(text) || text[at] != ':' {
		return ^at
	}
	return blanks(text, at+1)
}

// scalar returns the end of the string, number or literal that begins at a position.
func scalar(text []byte, at int) int {
	for _, literal := range [...]string{"true", "false", "null"} {
		if text[at] == literal[0] {
			return word(text, at, literal)
		}
	}
	if text[at] == '"' {
		return quoted(text, at)
	}
	return number(text, at)
}

// word returns the end of a literal that begins at a position.
func word(text []byte, at int, literal string) int {
	for i := range len(literal) {
		if at == len(text) || text[at] != literal[i] {
			return ^at
		}
		at++
	}
	return at
}

// quoted returns the end of the string that begins at a position.
func quoted(text []byte, at int) int {
	if at >= len(text) || text[at] != '"' {
		return ^at
	}
	for at++; at < len(text); at++ {
		switch c := text[at]; {
		case c == '"':
			return at + 1
		case c < ' ':
			return ^at
		case c != '\\':
		case at+1 == len(text):
			return ^(at + 1)
		default:
			at++
			switch text[at] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if at++; at == len(text) || !hex(text[at]) {
						return ^at
					}
				}
			default:
				return ^at
			}
		}
	}
	return ^at
}

func hex(c byte) bool { return digit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

func digit(c byte) bool { return c >= '0' && c <= '9' }

// number returns the end of the number that begins at a position.
func number(text []byte, at int) int {
	if at < len(text) && text[at] == '-' {
		at++
	}
	whole := digits(text, at)
	if whole < 0 {
		return whole
	}
	if text[at] == '0' && whole > at+1 {
		return ^(at + 1)
	}
	if at = whole; at < len(text) && text[at] == '.' {
		if at = digits(text, at+1); at < 0 {
			return at
		}
	}
	if at < len(text) && text[at]|0x20 == 'e' {
		if at++; at < len(text) && (text[at] == '+' || text[at] == '-') {
			at++
		}
		at = digits(text, at)
	}
	return at
}

// digits returns the end of the digits that begin at a position.
func digits(text []byte, at int) int {
	end := at
	for end < len(text) && digit(text[end]) {
		end++
	}
	if end == at {
		return ^at
	}
	return end
}
