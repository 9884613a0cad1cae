package mcp

// Level is a log level of RFC 5424 as MCP names it; a larger one is more
// severe. The zero value means that no log message is wanted.
type Level uint8

// Levels from the most verbose to the most severe.
const (
	LevelNone Level = iota
	LevelDebug
	LevelInfo
	LevelNotice
	LevelWarning
	LevelError
	LevelCritical
	LevelAlert
	LevelEmergency
)

var levelNames = [...]string{"", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// ParseLevel reads a level's name; LevelNone means that it is none.
func ParseLevel(s string) Level {
	for i, name := range levelNames[1:] {
		if name == s {
			return Level(i + 1)
		}
	}
	return LevelNone
}

func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return ""
}

// Admits reports whether a client that asked for l wants a message of level m.
func (l Level) Admits(m Level) bool { return l != LevelNone && m >= l }
