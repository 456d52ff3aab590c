package manifest

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// maxAliasNodes limits the nodes of a file after the expansion of aliases and merge
// keys.
const maxAliasNodes = 100_000

// aliasBudget counts the nodes of expanded aliases without expanding them.
type aliasBudget struct {
	sizes map[*yaml.Node]int // expanded size of each anchored node
	spent int
}

// count returns the number of nodes that n has after the expansion of all aliases. It
// returns an error for an anchored node that contains an alias of itself. An anchor
// always precedes its aliases, and count stores the size of an anchored node after it has
// counted the content. So an alias without a stored size is inside its own anchored node.
func (b *aliasBudget) count(n *yaml.Node) (size int, err error) {
	if n.Kind == yaml.AliasNode {
		size, counted := b.sizes[n.Alias]
		if !counted {
			return 0, fmt.Errorf("line %d: the anchor &%s contains itself", n.Line, n.Value)
		}
		if b.spent += size; b.spent > maxAliasNodes {
			return 0, fmt.Errorf("line %d: *%s: the aliases of the file expand to more than %d values", n.Line, n.Value, maxAliasNodes)
		}
		return size, nil
	}
	size = 1
	for _, c := range n.Content {
		below, err := b.count(c)
		if err != nil {
			return 0, err
		}
		size += below
	}
	if n.Anchor != "" {
		if b.sizes == nil {
			b.sizes = map[*yaml.Node]int{}
		}
		b.sizes[n] = size
	}
	return size, nil
}
