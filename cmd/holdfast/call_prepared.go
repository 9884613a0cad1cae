package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/cmd/internal/modern"
)

// preparedAnswers are the answers of --answer and --answers, by input request
// key. Each is used once, in the order given: a server that asks again gets
// the next one, not the same that it did not like.
type preparedAnswers struct {
	queues map[string][]string
	keys   []string // in the order given
}

// maxAnswerFile bounds an --answers file.
const maxAnswerFile = 16 << 20

func (p *preparedAnswers) addFlag(text string) error {
	key, answer, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return errors.New("must be KEY=JSON")
	}
	p.add(key, answer)
	return nil
}

func (p *preparedAnswers) addFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxAnswerFile+1))
	if err != nil {
		return err
	}
	if len(text) > maxAnswerFile {
		return fmt.Errorf("%s is larger than %d bytes", path, maxAnswerFile)
	}
	members, err := modern.Members(jsontext.Value(text))
	if err != nil || !jsontext.Value(text).IsValid() {
		return fmt.Errorf("%s must hold a JSON object of answers by key", path)
	}
	for _, member := range members {
		p.add(member.Name, string(member.Value))
	}
	return nil
}

func (p *preparedAnswers) add(key, answer string) {
	if p.queues == nil {
		p.queues = map[string][]string{}
	}
	if _, ok := p.queues[key]; !ok {
		p.keys = append(p.keys, key)
	}
	p.queues[key] = append(p.queues[key], answer)
}

// take returns the next answer for a key.
func (p *preparedAnswers) take(key string) (string, bool) {
	queue := p.queues[key]
	if len(queue) == 0 {
		return "", false
	}
	p.queues[key] = queue[1:]
	return queue[0], true
}

// known reports whether there ever was an answer for the key.
func (p *preparedAnswers) known(key string) bool { return slices.Contains(p.keys, key) }

// unused names the keys that still have an answer.
func (p *preparedAnswers) unused() []string {
	var keys []string
	for _, key := range p.keys {
		if len(p.queues[key]) > 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// preparedResult completes an answer's short form to the result that the
// method wants: for an elicitation a form's content or one of the words
// accept, decline and cancel; for sampling a text; for roots the array. What
// is complete already, or unknown, goes as it is: the server judges it.
func preparedResult(method, answer string) (jsontext.Value, error) {
	value := jsontext.Value(answer)
	valid := value.IsValid()
	switch method {
	case modern.MethodElicit:
		word, isText := answer, !valid
		if valid {
			word, isText = modern.Text(value)
		}
		switch {
		case isText && slices.Contains(elicitActions, word):
			return elicitResult(word, nil), nil
		case valid && value.Kind() == '{':
			if isElicitResult(value) {
				return value, nil
			}
			return elicitResult("accept", value), nil
		}
		return nil, fmt.Errorf("%w: an answer to an elicitation is an object or one of %s", errMisused, strings.Join(elicitActions, ", "))
	case modern.MethodCreateMessage:
		if valid && value.Kind() == '{' {
			return value, nil
		}
		text := answer
		if valid && value.Kind() == '"' {
			text, _ = modern.Text(value)
		}
		return samplingResult(text), nil
	}
	if !valid {
		return nil, fmt.Errorf("%w: the answer is not JSON", errMisused)
	}
	if value.Kind() == '[' {
		return modern.Object(modern.Member{Name: "roots", Value: value}), nil
	}
	return value, nil
}

// isElicitResult tells an ElicitResult from a form's content.
func isElicitResult(value jsontext.Value) bool {
	members, err := modern.Members(value)
	if err != nil {
		return false
	}
	found := false
	for _, member := range members {
		switch member.Name {
		case "action":
			word, _ := modern.Text(member.Value)
			found = slices.Contains(elicitActions, word)
		case "content", "_meta":
		default:
			return false
		}
	}
	return found
}
