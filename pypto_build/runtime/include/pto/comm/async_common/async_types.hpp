// The types of asynchronous transfers under the name some sources include: the whole set is one header.
#include "../../pto-inst.hpp"
