// Stand-in for the header of pto-isa.
#pragma once
