/// Before anything is judged: does the judge reject what is wrong?
///
/// require_sound_judge   numerics::verify_judge on one fixed problem, with the bound of a kernel whose insides are known
///                       and with that of one whose insides are not; every offer of it must apply there. Milliseconds
/// Errors                EnvironmentError (status 3) that names what the judge let pass: this build of the laboratory
///                       cannot be trusted
#pragma once

#include "numerics/verdict.hpp"

namespace fa1::reports {

void require_sound_judge(const numerics::Judge& judge = numerics::judge);

} // namespace fa1::reports
