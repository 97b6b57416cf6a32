package layout

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The code that the README shows is what the SDK checks run.
func TestReadmeShowsWhatIsChecked(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^(.)`)
	for _, file := range []string{"payments.mjs", "agents_pay.mjs", "langchain_pay.mjs", "ai_pay.mjs"} {
		code, err := os.ReadFile("../sdk/node/" + file)
		if err != nil {
			t.Fatal(err)
		}
		block := "\n\n" + line.ReplaceAllString(string(code), "    $1") + "\n"
		if !strings.Contains(string(readme), block) {
			t.Errorf("the README has not this code of test/sdk/node/%s, as it stands there:%s", file, block)
		}
	}
}
